"""Checks of the machine, the libraries and the services, each a function that returns a Finding."""
