"""Every setting, and how it is loaded.

In: base.yaml, an overlay, `--set` changes. Out: `Settings`, frozen and typed. Imports experiments,
for the names of swap buckets, and the root modules.
"""
