"""Small generated tables with many test rows: 12 to 60 rows to learn from, 1,000 to test on.

They are what small tables are often like: nearly collinear columns, common trends, counts that no
column explains, skewed targets, few rows of each class. `a` tables are for choosing settings, `b`
tables for confirming them once. Everything about a table follows from its name. Each has three
splits, whose training rows differ.
"""

from collections.abc import Callable
from typing import NamedTuple
from zlib import crc32

import numpy as np
import pandas as pd

NUM_SPLITS = 3
NUM_TESTS = 1000
PER_HALF = 2  # tables of each scheme


class Scheme(NamedTuple):
    """The kind of the target, the fewest and the most training rows and columns, and a function."""

    kind: str
    rows: tuple[int, int]
    columns: tuple[int, int]
    make: Callable


def collinear(random, rows, width):
    """Columns that two factors explain but for a few percent."""
    factors = random.normal(size=(rows, 2))
    scale = random.uniform(0.03, 0.2)
    inputs = factors @ random.normal(size=(2, width)) + scale * random.normal(size=(rows, width))
    noise = random.uniform(0.1, 0.6)
    return inputs, factors @ random.normal(size=2) + noise * random.normal(size=rows)


def trend(random, rows, width):
    """Columns that all grow with time, as the yearly figures of an economy do."""
    time = random.uniform(0, 1, size=(rows, 1))
    inputs = time * random.uniform(1, 5, size=width)
    inputs = inputs + 0.15 * random.normal(size=(rows, width))
    return inputs, 2 * time[:, 0] + inputs[:, 0] * 0.2 + 0.1 * random.normal(size=rows)


def unrelated(random, rows, width):
    """A target that has nothing to do with the columns."""
    return random.normal(size=(rows, width)), 10 + random.normal(size=rows)


def skewed(random, rows, width):
    """A positive target with a long tail; one column matters."""
    inputs = random.normal(size=(rows, width))
    return inputs, np.exp(0.5 * inputs[:, 0] + random.uniform(0.3, 0.8) * random.normal(size=rows))


def curved(random, rows, width):
    inputs = random.uniform(-2, 2, size=(rows, width))
    mean = inputs[:, 0] + np.abs(inputs[:, 1])
    return inputs, mean + random.uniform(0.1, 0.5) * random.normal(size=rows)


def counts(random, rows, width):
    """Counts that vary more than Poisson and depend on one column, or on none."""
    inputs = random.normal(size=(rows, width))
    level, slope = random.uniform(1, 4), random.choice([0.0, 0.4])
    size = random.uniform(1, 5)
    rate = np.exp(level + slope * inputs[:, 0]) * random.gamma(size, 1 / size, size=rows)
    return inputs, random.poisson(rate)


def two_classes(random, rows, width):
    inputs = random.normal(size=(rows, width))
    logit = random.choice([0.0, 1.0, 3.0]) * inputs[:, 0] + random.uniform(-1, 1)
    return inputs, random.random(rows) < 1 / (1 + np.exp(-logit))


def three_classes(random, rows, width):
    labels = random.choice(3, rows)
    centers = random.uniform(0.2, 1.5) * random.normal(size=(3, width))
    return centers[labels] + random.normal(size=(rows, width)), labels


SCHEMES = {
    "collinear": Scheme("regression", (12, 40), (3, 10), collinear),
    "trend": Scheme("regression", (12, 40), (3, 8), trend),
    "unrelated": Scheme("regression", (12, 40), (2, 8), unrelated),
    "skewed": Scheme("regression", (15, 50), (2, 6), skewed),
    "curved": Scheme("regression", (20, 60), (2, 5), curved),
    "counts": Scheme("counts", (15, 60), (2, 6), counts),
    "two": Scheme("binary", (16, 60), (2, 8), two_classes),
    "three": Scheme("multiclass", (24, 60), (2, 6), three_classes),
}


def names(half):
    return [f"small-{scheme}-{half}{n}" for scheme in SCHEMES for n in range(PER_HALF)]


def facts(name):
    """Kind and number of training rows."""
    scheme, random = _of(name)
    return scheme.kind, int(random.integers(*scheme.rows, endpoint=True))


def load(name):
    """Kind, inputs and target: the training rows of all splits, then the test rows."""
    scheme, random = _of(name)
    num_train = int(random.integers(*scheme.rows, endpoint=True))
    width = int(random.integers(*scheme.columns, endpoint=True))
    inputs, target = scheme.make(random, NUM_SPLITS * num_train + NUM_TESTS, width)
    return scheme.kind, pd.DataFrame(inputs, columns=[f"x{j}" for j in range(width)]), target


def split(name, number):
    """Row numbers for training and for testing."""
    _, num_train = facts(name)
    first = NUM_SPLITS * num_train
    train = np.arange(number * num_train, (number + 1) * num_train)
    return train, np.arange(first, first + NUM_TESTS)


def _of(name):
    return SCHEMES[name.split("-")[1]], np.random.default_rng(crc32(name.encode()))
