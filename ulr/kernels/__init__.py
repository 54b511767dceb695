"""Numba kernels: arrays in, arrays out; layout.py describes the arrays.

In: flat numpy arrays, single or in the NamedTuples of layout.py. Out: arrays. Imports only the root
modules; Arrow and the engines stay outside. A kernel for one group or query comes first, then the
loop over all of them, then a wrapper that checks shapes. Only training's kernels run on several
threads: tasks fill the cores by themselves.
"""
