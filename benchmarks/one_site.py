"""How far averaged and stochastic EP, with one site for all data, are from EP as the data grow.

    python benchmarks/one_site.py

Prints the table of docs/approximations.md: probit regression on five generated columns. The gap is
the largest difference between means, in posterior deviations of EP, and between logarithms of
deviations.
"""

import jax
import numpy as np
from scipy.stats import norm

import bbalpha as bb

SIZES = (50, 500, 5_000, 50_000)
NUM_COLUMNS = 5


def main():
    print("| rows | gap of averaged EP | gap of stochastic EP |\n|---|---|---|")
    for num_rows in SIZES:
        data = bb.Probit(), *generated(num_rows)
        ep = bb.power_ep(*data)
        averaged = gap(bb.averaged_ep(*data), ep)
        stochastic = gap(bb.stochastic_ep(*data, key=jax.random.key(0)), ep)
        print(f"| {num_rows:,} | {averaged:.2g} | {stochastic:.2g} |", flush=True)


def generated(num_rows):
    """Inputs and labels drawn from the model."""
    random = np.random.default_rng(0)
    weights = random.normal(size=NUM_COLUMNS)
    inputs = random.normal(size=(num_rows, NUM_COLUMNS))
    return inputs, (random.uniform(size=num_rows) < norm.cdf(inputs @ weights)).astype(float)


def gap(posterior, reference):
    """The largest difference of the two posteriors."""
    deviations, exact = np.sqrt(posterior.variance), np.sqrt(reference.variance)
    of_means = np.abs(posterior.mean - reference.mean) / exact
    return max(of_means.max(), np.abs(np.log(deviations / exact)).max())


if __name__ == "__main__":
    main()
