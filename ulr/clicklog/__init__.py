"""The click log's files, formats and contract.

In: the files of a date, as Parquet, JSON lines or CSV, one row per page or per shown document.
Out: Arrow batches of pages, checked against the contract, and the table `quarantine`.

May import: the root, experiments, kernels, config, engine, warehouse.
"""
