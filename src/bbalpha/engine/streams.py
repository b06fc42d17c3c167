"""Random streams: each use of a fit's key folds in a different number.

`jax.random.split(key, n)[i]` equals `jax.random.fold_in(key, i)`. The numbers here therefore count
down from the largest word, so that a start drawn from a split of the same key is independent of the
fit.
"""

ORDER = 2**32 - 1  # the order of the rows in each epoch
HELD_OUT = 2**32 - 2  # the draws that score held-out data
NOISE = 2**32 - 3  # the noise of each step
DRAWS = 2**32 - 4  # consecutive keys, one per draw
PREDICTIONS = 2**32 - 5  # the draws that an estimator predicts with
