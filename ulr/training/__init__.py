"""Training: pairs to a LightGBM model in one process; distributed/ on Spark barrier tasks.

In: the table pairs. Out: the table models (model.txt, record.json) and checkpoints. The model does
not depend on the number of workers, on threads or on failures. May import the rooms up to models.

local.train_ranker trains in one process, distributed.driver.train_on_spark on a cluster. Both run
loop.TrainingLoop, one per rank.
"""
