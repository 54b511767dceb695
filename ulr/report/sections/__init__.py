"""One module per section of the page: facts in, the context of its template out."""
