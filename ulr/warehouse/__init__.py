"""Tables published whole, and their schemas.

In: Arrow tables and files that the stages write. Out: published partitions with a manifest that
records their inputs, settings and counts. `stage.publish_if_changed` is the protocol of every
stage; `tables` and `overlay` hold the tables, `storage` and `lock` the files below them.

May import: the root, experiments, kernels, config, engine.
"""
