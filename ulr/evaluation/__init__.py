"""Models on held-out queries, as totals that merge.

In: groups and features of whole queries, models as LightGBM text, an Examination. Every metric of
`metrics.py` is computed per query in tasks, and only its totals return to the driver.
Out: the table `metrics`, and the totals themselves beside it.
Imports rooms up to training.
"""
