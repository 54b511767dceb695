"""How likely each position, and each pair of positions, is examined.

In: the groups of a window, and features for regression-EM. Out: tables propensities (theta),
joint_propensities (psi) and diagnostics; other rooms load them as class Examination. Imports
simulate and the rooms before it.
"""
