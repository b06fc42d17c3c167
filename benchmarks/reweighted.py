"""Reweighted posteriors at α = ½ against NUTS on the reference problems, as a table.

`python benchmarks/reweighted.py`. Errors are the largest over the parameters: of the means in
posterior deviations, of the deviations relative to them.
"""

import jax
import numpy as np
from references import cases

import bbalpha as bb

NUM_SAMPLES = 20_000


def main():
    print("| problem | Pareto k̂ | effective size | means | deviations |\n|---|---|---|---|---|")
    for name, problem in cases.REFERENCES.items():
        print(row(name, problem), flush=True)


def row(name, problem):
    answer = cases.answers()[name]["posterior"]
    means, deviations = np.array(answer["means"]), np.array(answer["deviations"])
    posterior = bb.fit(
        problem.log_likelihood,
        problem.params,
        problem.data,
        alpha=0.5,
        family=bb.FullGaussian,
        key=jax.random.key(0),
    )
    try:
        found = posterior.reweighted(
            problem.log_likelihood, problem.data, key=jax.random.key(1), num_samples=NUM_SAMPLES
        )
    except ValueError as refusal:
        return f"| {name} | refused: {refusal} | | | |"
    flatten = posterior.layout.flatten
    of_means = np.max(np.abs(flatten(found.mean) - means) / deviations)
    of_deviations = np.max(np.abs(np.sqrt(flatten(found.variance)) / deviations - 1))
    k, size = found.pareto_k, found.effective_size
    return f"| {name} | {k:.2f} | {size:,.0f} | {of_means:.3f} | {of_deviations:.1%} |"


if __name__ == "__main__":
    main()
