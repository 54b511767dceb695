"""Tables published whole, and their schemas.

In: Arrow tables and files that the stages write. Out: published partitions with a manifest that
records their files, inputs, settings and counts. `stage.publish_if_changed` is the protocol of
every stage; `tables`, `overlay` and `transaction` hold and publish the tables; `verify`, `migrate`,
`cleanup` and `retention` look after published ones; the rest are the files below them.

May import: the root, experiments, kernels, config, engine.
"""
