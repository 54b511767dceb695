"""Faults and attacks against the real product, counted as survived, lost, hung or executed."""
