"""Unbiased learning to rank from click logs, on Spark and LightGBM."""

__version__ = "0.1.0"
