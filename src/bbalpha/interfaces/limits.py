"""Limits and special values of settings; free of jax, so that the command line can import them."""

MOST_UNITS = 100_000  # in a hidden layer
MOST_LAYERS = 1000  # each has a cost in addition to its weights
LARGEST_ALPHA = 1e15  # in absolute value
POWERS = (0.5, 0.0, 1.0)  # tried to choose alpha
TUNED, STACKED = "tuned", "stacked"  # choose one alpha, or mix several, by leave-one-out
LOWEST_LEVEL = 1e-37  # of a quantile; smaller probabilities lose precision in 32 bits
# Exclusive; squares of the first two are finite in float32.
POSITIVE = {"prior_scale": 1e15, "learning_rate": 1e15, "validation_fraction": 1.0}
