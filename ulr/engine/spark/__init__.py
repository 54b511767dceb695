"""The engine on Spark: tasks in a cluster or in a local JVM. Nothing else imports pyspark but `ml`.

This file imports nothing, so that modules without pyspark, such as `jvm`, load without it.
"""
