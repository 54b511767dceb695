"""Helpers shared by tests: oracles, samples, servers, clusters."""
