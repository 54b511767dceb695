"""Training: pairs to a LightGBM model; distributed/ by one or several workers of an engine.

In: the table pairs. Out: the table models (model.txt, record.json) and checkpoints. The model does
not depend on the number of workers, on threads or on failures. May import the rooms up to models.

distributed.driver.train_on_ranks trains on the ranks of an engine, each of which runs
loop.TrainingLoop. trained.TrainedRanker is the result.
"""
