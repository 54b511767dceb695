"""Pages to click-pattern histograms.

In: checked pages of a date's click log. Out: the table `groups`, by date: one row per (query,
segment, bucket, arm, shown ranking) with the histogram of its click patterns.

May import: the root, experiments, kernels, config, engine, warehouse, clicklog.
"""
