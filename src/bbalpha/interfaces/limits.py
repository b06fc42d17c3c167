"""How large settings may be, and what else; without jax, for the options of the command line."""

MOST_UNITS = 100_000  # of a hidden layer
MOST_LAYERS = 1000  # each has a cost in addition to its weights
LARGEST_ALPHA = 1e15  # in size
POWERS = (0.5, 0.0, 1.0)  # that are tried to choose alpha
TUNED, STACKED = "tuned", "stacked"  # an alpha that is chosen, or several mixed, by leave-one-out
LOWEST_LEVEL = 1e-37  # of a quantile; 32 bits have no smaller probability of full precision
# Exclusive; squares of the first two are finite in float32.
POSITIVE = {"prior_scale": 1e15, "learning_rate": 1e15, "validation_fraction": 1.0}
