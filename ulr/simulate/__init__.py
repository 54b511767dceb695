"""A click log whose truth is known (docs/methods.md section 8).

In: settings, and LETOR files if the queries are to be real. Out: a click log, a features table,
and the true relevance, theta and psi. The same settings give the same files on any engine.

May import: the root, experiments, kernels, config, engine, warehouse, clicklog, groups, features.
"""
