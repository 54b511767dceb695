"""Unbiased learning to rank from click logs, on Spark and LightGBM."""
