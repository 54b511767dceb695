"""Examination propensities: counts from Spark, then one estimator a file, numpy on small tables."""
