"""A trained model: load, compare, score, export.

In: models as LightGBM text, by method from the warehouse or from a file; feature rows.
Out: scores, the table `scores`, and texts that do not depend on the number of workers.
Imports rooms up to pairs.
"""
