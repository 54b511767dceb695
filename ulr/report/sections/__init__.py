"""One section of the page a file: facts in, HTML out."""
