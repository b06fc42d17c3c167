"""How many of a thing a program may count; without jax, for the options of the command line."""

MOST = 2**31 - 1  # of anything that is counted in compiled programs
MOST_SAMPLES = 10**6  # draws, each of which has a key of its own in memory
