"""Feature files, and groups joined with them query by query.

In: feature files (Parquet or LETOR text) and files of the table `groups`. Out: partitions that
hold whole queries (copartition), rankings with their click histograms and feature rows (join),
float32 matrices (matrix), train and test queries (split).

May import: the root, experiments, kernels, config, engine, warehouse, clicklog, groups.
"""
