"""The tallies of each date: counted once from its groups, stored, and summed over a window.

In: groups of a date. Out: tables `swap_counts` and `swap_documents`, by date, stored beside the
groups. They depend on the groups alone, so that every run and every re-run shares them. Counts are
integers: the sum over a window equals a count over all of its pages.
"""
