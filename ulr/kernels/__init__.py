"""Numba kernels: arrays in, arrays out; layout.py describes the arrays.

In: flat numpy arrays, single or in the NamedTuples of layout.py. Out: arrays. Imports only the root
modules; Spark and Arrow stay outside. A kernel for one group or query comes first, then the loop
over all of them, then a wrapper that checks shapes. Only training's kernels run on several threads:
Spark tasks fill the cores by themselves.
"""
