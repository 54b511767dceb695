"""Checks of the machine and of the services around it; each a function that returns `Found`."""
