"""Training on Spark barrier tasks.

The driver (driver, recovery) indexes the queries, shuffles them to workers (shuffle, balance) and
runs the barrier stage, with retries. A worker (barrier, task, local_ranks) connects to the others
(rendezvous, handshake, communicator) and lets LightGBM sum over them (lightgbm_network).
"""
