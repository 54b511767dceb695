"""Training on the ranks of an engine: processes of this machine, or barrier tasks of Spark.

The driver (driver, recovery) indexes the queries, assigns them to workers (prepare, query_index,
balance) and runs the ranks, with retries. A worker (task, local_ranks) reads its queries
(pair_files), connects to the others (rendezvous, handshake, communicator) and lets LightGBM sum
over them (lightgbm_network). The two ranks of a single worker share memory (local_communicator).
"""
