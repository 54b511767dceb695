"""Numba kernels: arrays in, arrays out. Nothing here knows Spark or Arrow."""
