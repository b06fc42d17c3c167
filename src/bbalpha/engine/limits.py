"""The largest counts that programs support; free of jax, so that the command line can import it."""

MOST = 2**31 - 1  # of anything that is counted in compiled programs
MOST_SAMPLES = 10**6  # draws; each has its own key in memory
