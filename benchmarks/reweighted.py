"""Reweighted posteriors at α = ½ against NUTS on the reference problems, as a table.

`python benchmarks/reweighted.py`. Errors are the largest over the parameters: of the means in
posterior deviations, of the deviations relative to them. The tail is the largest k̂ of a parameter.
"""

import warnings

import jax
import numpy as np
from references import cases

import bbalpha as bb

NUM_SAMPLES = 20_000


def main():
    print("| problem | Pareto k̂ | tail | effective size | means | deviations | said |")
    print("|---|---|---|---|---|---|---|")
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
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = posterior.reweighted(
                problem.log_likelihood, problem.data, key=jax.random.key(1), num_samples=NUM_SAMPLES
            )
        except ValueError as refusal:
            return f"| {name} | | | | | | refused: {refusal} |"
    flatten = posterior.layout.flatten
    of_means = np.max(np.abs(flatten(found.mean) - means) / deviations)
    of_deviations = np.max(np.abs(np.sqrt(flatten(found.variance)) / deviations - 1))
    k, tail = found.pareto_k, np.max(flatten(found.tail_pareto_k))
    return (
        f"| {name} | {k:.2f} | {tail:.2f} | {found.effective_size:,.0f} | {of_means:.3f} "
        f"| {of_deviations:.1%} | {' '.join(str(warning.message) for warning in caught)} |"
    )


if __name__ == "__main__":
    main()
