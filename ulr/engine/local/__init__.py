"""The engine on one machine: tasks in a pool of processes, without Java and pyspark."""
