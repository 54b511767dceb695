"""Judgments: the relevance of every shown document, estimated from clicks, with its interval.

In: groups, Examination. Out: a CSV file for search-relevance workbenches.
"""
