"""The tables and figures of the source papers, ours beside the published numbers.

    python -m tests.bench.papers [--full] [--letor FILE ...] [--only PAPER ...] [--out FOLDER]

A cell is a simulated log of one world and seed with the models of some methods. Cells run in
parallel processes, each with one thread. `make papers` writes the pages and figures of docs/papers.
"""
