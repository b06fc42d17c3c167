"""Rare categories cost nothing: `python benchmarks/rare_categories.py`.

The table "categories" of `table_sets.py` has 100 categories, 40 of which occur in fewer than five
rows. Prints the log-likelihood of a default estimator on test rows, in nats per row, for the table
as it is and for the table whose 40 rare categories were replaced by a single one beforehand.
"""

import sys

import numpy as np
import table_methods as methods
import table_sets as sets

FIRST_RARE = 60  # of the numbers in the names of the categories


def main():
    table = sets.load("categories")
    is_rare = table.inputs["place"].str.removeprefix("place ").astype(int) >= FIRST_RARE
    pooled = table.inputs.assign(place=table.inputs["place"].mask(is_rare, "rare"))
    found = []
    for split in range(sets.num_splits("categories")):
        rows = sets.problem("categories", split)[1]
        found.append(
            [score(inputs, table.target, rows, split) for inputs in (table.inputs, pooled)]
        )
        print(split, *np.round(found[-1], 4), file=sys.stderr, flush=True)
    difference = np.subtract(*np.transpose(found))
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    print("as it is {:.3f}, pooled {:.3f},".format(*np.mean(found, axis=0)), end=" ")
    print(f"difference {difference.mean():+.4f} ± {error:.4f}")


def score(inputs, target, rows, seed):
    problem = methods.Problem(
        "regression",
        inputs.iloc[rows.train],
        target[rows.train],
        inputs.iloc[rows.test],
        target[rows.test],
        seed,
    )
    return methods.predict("ours", problem, {"encoder": "auto"}).log_densities.mean()


if __name__ == "__main__":
    main()
