"""Where Spark stops: session, Arrow columns as arrays, shuffle blocks, failures as one line.

In: settings of the session, Arrow columns, errors of Spark. Out: a session, numpy arrays for the
kernels, blocks of bytes that Spark shuffles, user errors with their own class. Imports the root
modules, kernels and config.
"""
