"""Would K chosen from measured noise win? Warm CPU time of fits with other K than the default.

`python benchmarks/number_of_draws.py`. Ten reference problems, full Gaussian, α = 0, all other
defaults. A rule that measures the noise could at best choose the fastest K of each problem, for
free.
"""

import time
import warnings

import jax
import numpy as np
from references import cases

import bbalpha as bb
from bbalpha.planning import draws_for

FACTORS = (0.5, 1, 2, 4)
REPETITIONS = 5


def main():
    columns = " | ".join(f"{factor:g} K" for factor in FACTORS)
    print(f"| problem | K | {columns} |\n|---|---|{'---|' * len(FACTORS)}")
    ratios = []
    for name, problem in cases.REFERENCES.items():
        number = draws_for("natural", problem.params, None, problem.num_data)
        results = {f: measured(problem, int(f * number)) for f in FACTORS}
        cells = " | ".join(f"{1e3 * seconds:.0f} ms{mark}" for seconds, mark in results.values())
        print(f"| {name} | {number} | {cells} |", flush=True)
        best = min(seconds for seconds, mark in results.values() if not mark)
        ratios.append(best / results[1][0])
    ratio = np.exp(np.mean(np.log(ratios)))
    print(f"\nThe best of the {len(FACTORS)} takes {ratio:.2f} of the default's time.")


def measured(problem, num_samples):
    """Median CPU seconds of a fit after the first, and a mark if one did not converge."""
    times, converged = [], True
    for seed in range(REPETITIONS + 1):
        started = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", bb.ConvergenceWarning)
            posterior = bb.fit(
                problem.log_likelihood,
                problem.params,
                problem.data,
                alpha=0.0,
                family=bb.FullGaussian,
                num_samples=num_samples,
                key=jax.random.key(seed),
            )
        times.append(time.process_time() - started)
        converged &= posterior.info.converged
    return np.median(times[1:]), "" if converged else ", not converged"


if __name__ == "__main__":
    main()
