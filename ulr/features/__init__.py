"""Feature files, and groups joined with them query by query.

In: feature files (Parquet or LETOR text) and files of the table `groups`. Out: the table `window`
(stage, tasks, join), its rows as flat arrays (window), float32 matrices (matrix), train and test
queries (split).

May import: the root, experiments, kernels, config, engine, warehouse, clicklog, groups.
"""
