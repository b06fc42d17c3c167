"""The tables of `tables.py`: bundled with scikit-learn and statsmodels, or generated here.

Half of the tables are for development, the other half is frozen: settings are chosen on the first
half before they are tried on the second. `halves` has the rule, which was written down before
anything was fitted: within each kind of target, tables are sorted by number of rows (then by name),
and they alternate, the smallest being for development.
"""

import os
from collections.abc import Callable
from functools import cache
from importlib import resources
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

import numpy as np
import pandas as pd
import small_sets
from sklearn import datasets
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

KINDS = ("regression", "counts", "binary", "multiclass")
FEW_ROWS = 100  # below, a fifth of the rows is for testing, and splits are added up to:
LEAST_TESTS = 20  # test rows of all splits together
NUM_SPLITS = 3
MOST_TESTS = 5000  # test rows of one split; more say nothing new
UCI_SPLITS = 5
UCI_TESTS = 2000

SIZES = (15, 30, 60, 120, 250, 500, 1000)
SIZED_TABLES = ("fair", "heteroscedastic", "interactions", "flights")  # of the development half
SIZED_TESTS = 1000


class Table(NamedTuple):
    """Columns to predict from, which may hold texts and gaps, and the target."""

    name: str
    kind: str
    inputs: pd.DataFrame
    target: np.ndarray  # floats, or class numbers from 0

    @property
    def is_classes(self):
        return self.kind in ("binary", "multiclass")


class Split(NamedTuple):
    """Row numbers for training and for testing."""

    train: np.ndarray
    test: np.ndarray


def random_of(name):
    return np.random.default_rng(crc32(name.encode()))


# Bundled tables: kind, number of rows, function


def of_sklearn(name, target=None):
    loaded = getattr(datasets, f"load_{name}")(as_frame=True)
    if target is None:
        return loaded.data, loaded.target
    return loaded.data, loaded.target[target]


def of_statsmodels(name, target, drop=()):
    import statsmodels.api as sm

    frame = getattr(sm.datasets, name).load_pandas().data.reset_index(drop=True)
    return frame.drop(columns=[target, *drop]), frame[target]


def of_file(path, target, drop=()):
    """A table that statsmodels ships for its own tests."""
    with resources.as_file(resources.files("statsmodels") / path) as file:
        frame = pd.read_csv(file).dropna()
    return frame.drop(columns=[target, *drop]), frame[target]


def fertility():
    """Predict births per woman in 2010 from the figures of 1960 to 2000, some of them missing."""
    import statsmodels.api as sm

    frame = sm.datasets.fertility.load_pandas().data
    frame = frame[frame["2010"].notna()].reset_index(drop=True)
    return frame[["1960", "1970", "1980", "1990", "2000"]], frame["2010"]


def star98():
    """Share of pupils above the median in mathematics, by school district."""
    import statsmodels.api as sm

    frame = sm.datasets.star98.load_pandas().data
    share = frame["NABOVE"] / (frame["NABOVE"] + frame["NBELOW"])
    return frame.drop(columns=["NABOVE", "NBELOW"]), share


def fair():
    inputs, affairs = of_statsmodels("fair", "affairs")
    return inputs, affairs > 0


def lbw():
    return of_file("genmod/tests/results/stata_lbw_glm.csv", "low", drop=("id", "bwt"))


def modechoice():
    """Air, train, bus or car: one row per traveller, with the costs and times of all four."""
    import statsmodels.api as sm

    frame = sm.datasets.modechoice.load_pandas().data
    wide = frame.pivot(index="individual", columns="mode", values=["ttme", "invc", "invt", "gc"])
    wide.columns = [f"{name}{int(mode)}" for name, mode in wide.columns]
    person = frame.groupby("individual")[["hinc", "psize"]].first()
    chosen = frame[frame["choice"] == 1].set_index("individual")["mode"]
    return pd.concat([wide, person], axis=1).reset_index(drop=True), chosen.sort_index()


# Generated tables


def columns(matrix):
    return pd.DataFrame(matrix, columns=[f"x{j}" for j in range(matrix.shape[1])])


def linear(random, rows, width, noise=1.0):
    inputs = random.normal(size=(rows, width))
    return columns(inputs), inputs @ random.normal(size=width) + noise * random.normal(size=rows)


def friedman(random, rows, number, noise):
    make = getattr(datasets, f"make_friedman{number}")
    inputs, target = make(rows, noise=noise, random_state=int(random.integers(2**31)))
    return columns(inputs), target


def heteroscedastic(random, rows):
    inputs = random.uniform(-2, 2, size=(rows, 4))
    scale = np.exp(inputs[:, 1] - 1)
    return columns(inputs), np.sin(2 * inputs[:, 0]) + scale * random.normal(size=rows)


def heavy(random, rows):
    inputs = random.normal(size=(rows, 6))
    mean = np.tanh(inputs[:, 0]) + inputs[:, 1] * (inputs[:, 2] > 0)
    return columns(inputs), mean + 0.3 * random.standard_t(2, size=rows)


def slip(random, rows):
    """One input of one row has its decimal point three places off; it is tested in split 0."""
    inputs, target = friedman(random, rows, 1, 1.0)
    (row, *_) = splits_of("slip", np.zeros(rows), is_classes=False)[0].test
    inputs.loc[row, "x3"] *= 1000
    return inputs, target


def categories(random, rows):
    """A text of 100 values, 40 of them in fewer than five rows each, and three numbers."""
    counts = random.integers(1, 5, size=40)
    common = random.dirichlet(np.full(60, 2.0)) * 0.7 + 0.3 / 60
    text = np.concatenate(
        [np.repeat(np.arange(60, 100), counts), random.choice(60, rows - counts.sum(), p=common)]
    )
    text = random.permutation(text)
    effect = random.normal(size=100)
    inputs = columns(random.normal(size=(rows, 3)))
    target = effect[text] + inputs["x0"] + np.sin(2 * inputs["x1"]) + random.normal(size=rows) / 2
    inputs["place"] = [f"place {value}" for value in text]
    return inputs, target


def interactions(random, rows):
    inputs = random.uniform(-1, 1, size=(rows, 8))
    one, two, three, four = inputs.T[:4]
    target = 3 * one * two + 2 * three * (four > 0) + 4 * one * three * four
    return columns(inputs), target + 0.3 * random.normal(size=rows)


def sparse(random, rows):
    inputs = random.normal(size=(rows, 100))
    target = 2 * inputs[:, 0] - inputs[:, 1] + np.abs(inputs[:, 2])
    return columns(inputs), target + 0.5 * random.normal(size=rows)


def correlated(random, rows):
    factors = random.normal(size=(rows, 3))
    inputs = factors @ random.normal(size=(3, 20)) + 0.1 * random.normal(size=(rows, 20))
    target = factors[:, 0] + factors[:, 1] * factors[:, 2] + 0.3 * random.normal(size=rows)
    return columns(inputs), target


def smooth(random, rows):
    inputs = random.uniform(-2, 2, size=(rows, 6))
    one, two, three = inputs.T[:3]
    mean = np.sin(one * two) + np.exp(-(three**2)) * one + 0.2 * inputs[:, 3]
    return columns(inputs), mean + 0.1 * random.normal(size=rows)


def flights(random, rows):
    """Delays at arrival: heavy tails, two texts with rare values, gaps in one column."""
    popularity = 1 / np.arange(1, 401) ** 1.3
    airport = random.choice(400, rows, p=popularity / popularity.sum())
    carrier = random.choice(16, rows, p=random.dirichlet(np.ones(16)))
    departure = np.round(random.gamma(0.4, 30, size=rows) - 5)
    distance = np.round(random.lognormal(6.7, 0.6, size=rows))
    hour = random.integers(5, 24, size=rows)
    by_place, by_carrier = 4 * random.normal(size=400), 3 * random.normal(size=16)
    noise = (8 + departure.clip(0, 60) / 10) * random.standard_t(4, size=rows)
    target = departure - distance / 300 + by_place[airport] + by_carrier[carrier] + noise
    wind = random.normal(size=rows)
    inputs = pd.DataFrame({"departure": departure, "distance": distance, "hour": hour})
    inputs["wind"] = np.where(random.random(rows) < 0.05, np.nan, wind)
    inputs["airport"] = [f"airport {value}" for value in airport]
    inputs["carrier"] = [f"carrier {value}" for value in carrier]
    return inputs, np.round(target + 3 * wind + 4 * (hour > 17))


def overdispersed(random, rows):
    """Counts with a variance above their mean (negative binomial)."""
    inputs = random.normal(size=(rows, 5))
    mean = np.exp(1 + 0.6 * inputs[:, 0] - 0.4 * np.abs(inputs[:, 1]))
    return columns(inputs), random.poisson(mean * random.gamma(2.0, 0.5, size=rows))


def xor(random, rows):
    inputs = random.normal(size=(rows, 4))
    is_one = inputs[:, 0] * inputs[:, 1] > 0
    return columns(inputs), is_one ^ (random.random(rows) < 0.05)


def rare(random, rows):
    """Two classes, one of them in 5 % of the rows."""
    inputs = random.normal(size=(rows, 8))
    logit = -5.4 + 1.5 * inputs[:, 0] + inputs[:, 1] * inputs[:, 2] + 0.7 * inputs[:, 3] ** 2
    return columns(inputs), random.random(rows) < 1 / (1 + np.exp(-logit))


def unequal(random, rows):
    """Five classes with shares from 60 to 2 %."""
    labels = random.choice(5, rows, p=[0.6, 0.25, 0.09, 0.04, 0.02])
    centers = 1.2 * random.normal(size=(5, 6))
    return columns(centers[labels] + random.normal(size=(rows, 6))), labels


BUNDLED: dict[str, tuple[str, int, Callable]] = {
    "longley": ("regression", 16, lambda: of_statsmodels("longley", "TOTEMP")),
    "linnerud": ("regression", 20, lambda: of_sklearn("linnerud", "Weight")),
    "scotland": ("regression", 32, lambda: of_statsmodels("scotland", "YES")),
    "statecrime": ("regression", 51, lambda: of_statsmodels("statecrime", "murder")),
    "ccard": ("regression", 72, lambda: of_statsmodels("ccard", "AVGEXP")),
    "motorcycle": (
        "regression",
        133,
        lambda: of_file("gam/tests/results/motorcycle.csv", "accel"),
    ),
    "fertility": ("regression", 204, fertility),
    "grunfeld": ("regression", 220, lambda: of_statsmodels("grunfeld", "invest")),
    "engel": ("regression", 235, lambda: of_statsmodels("engel", "foodexp")),
    "star98": ("regression", 303, star98),
    "diabetes": ("regression", 442, lambda: of_sklearn("diabetes")),
    "cpunish": ("counts", 17, lambda: of_statsmodels("cpunish", "EXECUTIONS")),
    "committee": ("counts", 20, lambda: of_statsmodels("committee", "BILLS104")),
    "epil": (
        "counts",
        236,
        lambda: of_file("genmod/tests/results/epil.csv", "y", ("Unnamed: 0", "subject", "V4")),
    ),
    "cancer": ("counts", 301, lambda: of_statsmodels("cancer", "cancer")),
    "randhie": ("counts", 20190, lambda: of_statsmodels("randhie", "mdvis")),
    "spector": ("binary", 32, lambda: of_statsmodels("spector", "GRADE")),
    "lbw": ("binary", 189, lbw),
    "breast_cancer": ("binary", 569, lambda: of_sklearn("breast_cancer")),
    "anes96": ("binary", 944, lambda: of_statsmodels("anes96", "vote", ("popul",))),
    "fair": ("binary", 6366, fair),
    "iris": ("multiclass", 150, lambda: of_sklearn("iris")),
    "wine": ("multiclass", 178, lambda: of_sklearn("wine")),
    "modechoice": ("multiclass", 210, modechoice),
    "digits": ("multiclass", 1797, lambda: of_sklearn("digits")),
}
GENERATED: dict[str, tuple[str, int, Callable]] = {
    "linear12": ("regression", 12, lambda random, rows: linear(random, rows, 3)),
    "linear40": ("regression", 40, lambda random, rows: linear(random, rows, 10)),
    "correlated": ("regression", 250, correlated),
    "friedman1": ("regression", 300, lambda random, rows: friedman(random, rows, 1, 1.0)),
    "slip": ("regression", 400, slip),
    "heavy": ("regression", 500, heavy),
    "sparse": ("regression", 600, sparse),
    "friedman2": ("regression", 1000, lambda random, rows: friedman(random, rows, 2, 100.0)),
    "friedman3": ("regression", 1200, lambda random, rows: friedman(random, rows, 3, 0.1)),
    "heteroscedastic": ("regression", 1500, heteroscedastic),
    "categories": ("regression", 2000, categories),
    "interactions": ("regression", 3000, interactions),
    "smooth": ("regression", 30_000, smooth),
    "flights": ("regression", 300_000, flights),
    "overdispersed": ("counts", 500, overdispersed),
    "xor": ("binary", 200, xor),
    "rare": ("binary", 5000, rare),
    "unequal": ("multiclass", 1000, unequal),
}
FACTS = {name: facts[:2] for name, facts in (BUNDLED | GENERATED).items()}

UCI_REGRESSION = (
    *("boston", "concrete", "energy", "kin8nm", "naval"),
    *("power", "protein", "wine_red", "yacht"),
)
UCI = dict.fromkeys(UCI_REGRESSION, "regression") | dict.fromkeys(
    ("ionosphere", "madelon", "pima", "colon"), "binary"
)


def halves():
    """Names for development and frozen names, each by kind and size."""
    found = ([], [])
    for kind in KINDS:
        of_kind = [(rows, name) for name, (its_kind, rows) in FACTS.items() if its_kind == kind]
        for place, (_, name) in enumerate(sorted(of_kind)):
            found[place % 2].append(name)
    return {"dev": found[0], "frozen": found[1]}


@cache
def load(name):
    if name.startswith("uci-"):
        return uci(name)
    if name.startswith("small-"):
        return table_of(name, *small_sets.load(name))
    kind, rows = FACTS[name]
    if name in BUNDLED:
        inputs, target = BUNDLED[name][2]()
    else:
        inputs, target = GENERATED[name][2](random_of(name), rows)
    assert len(inputs) == len(target) == rows, (name, len(inputs))
    return table_of(name, kind, inputs, target)


def table_of(name, kind, inputs, target):
    target = np.asarray(target)
    if kind in ("binary", "multiclass"):
        target = np.unique(target, return_inverse=True)[1]
    else:
        target = target.astype(float)
    return Table(name, kind, inputs.reset_index(drop=True), target)


def uci(name):
    """A set of the paper, from the folder that BBALPHA_DATA names."""
    base = name.removeprefix("uci-")
    frame = pd.read_csv(Path(os.environ["BBALPHA_DATA"]) / base / f"{base}.csv.gz")
    return table_of(name, UCI[base], frame.iloc[:, :-1], frame.iloc[:, -1])


def splits_of(name, target, *, is_classes):
    """Splits that depend on the table's name only: 90/10, or 80/20 below 100 rows."""
    few = len(target) < FEW_ROWS and not name.startswith("uci-")
    share = 0.2 if few else 0.1
    num_tests = max(round(share * len(target)), 1)
    number = UCI_SPLITS if name.startswith("uci-") else NUM_SPLITS
    if few:
        number = max(number, -(-LEAST_TESTS // num_tests))
    kind = StratifiedShuffleSplit if is_classes else ShuffleSplit
    splitter = kind(number, test_size=num_tests, random_state=crc32(name.encode()) % 2**31)
    most = UCI_TESTS if name.startswith("uci-") else MOST_TESTS
    return [
        Split(train, test[:most]) for train, test in splitter.split(np.zeros(len(target)), target)
    ]


def sized_split(table, size, repetition):
    """A split with `size` training rows; larger sizes contain the rows of smaller ones."""
    order = np.random.default_rng([crc32(table.name.encode()), repetition])
    rows = order.permutation(len(table.target))
    num_tests = min(SIZED_TESTS, len(rows) - max(SIZES))
    return Split(rows[num_tests : num_tests + size], rows[:num_tests])


def problem(name, number):
    """The table and the split behind a name such as "iris" or, with a size, "fair@60"."""
    base, _, size = name.partition("@")
    table = load(base)
    if name.startswith("small-"):
        return table, Split(*small_sets.split(name, number))
    if size:
        return table, sized_split(table, int(size), number)
    return table, splits_of(base, table.target, is_classes=table.is_classes)[number]


def num_splits(name):
    if "@" in name or name.startswith("small-"):
        return NUM_SPLITS
    table = load(name)
    return len(splits_of(name, table.target, is_classes=table.is_classes))
