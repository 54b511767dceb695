"""Weighted preference pairs.

In: the groups of a window, the examination of positions, the features of documents. Out: table
pairs, one row per query with its documents, features and weighted pairs, and the weight health of
the table. Imports propensity and the rooms before it.
"""
