"""Where the functions of a stage run, Arrow columns as arrays, blocks, failures as one line.

`interface` describes an engine; `local` is a pool of processes on this machine, `spark` a cluster.
In: sources and functions, Arrow columns, errors of tasks. Out: their results, numpy arrays for the
kernels, user errors with their own class. Imports the root modules, kernels and config.
"""
