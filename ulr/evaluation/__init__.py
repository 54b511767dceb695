"""Evaluation: per-query numbers from labels and from clicks, as totals that merge."""
