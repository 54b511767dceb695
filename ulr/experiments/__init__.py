"""Swap buckets: grammar, plan, serving side; standard library and numpy only, a server may copy it.

In: names of buckets, click rates, request ids. Out: permutations, a plan, assignments of requests.
Imports no other room.
"""
