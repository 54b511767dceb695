"""The run report: what was stored of a night or a comparison, as one page for people."""
