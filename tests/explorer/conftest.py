"""Tables of every kind, models fitted to them in a few steps, and the data of their pages."""

import numpy as np
import pandas
import pytest

import bbalpha as bb
from bbalpha.explorer.exploring import Table, explored
from bbalpha.interfaces import tuning

NUM_DATA = 60
SCRIPT = "<script>alert(1)</script>"  # as a name and as a cell
CLOSING = "</script><!-- \u2028 & <b>x</b>"
QUICK = {"max_epochs": 40, "num_samples": 4, "num_predictive_samples": 50, "random_state": 0}


@pytest.fixture(scope="session")
def houses():
    """Numbers, dates, texts and booleans, some of them missing, with a hostile name and cell."""
    random = np.random.default_rng(0)
    size = random.uniform(40, 200, NUM_DATA).round(1)
    days = pandas.Timestamp("2000-01-01") + pandas.to_timedelta(np.arange(NUM_DATA), unit="D")
    frame = pandas.DataFrame(
        {
            "size": size,
            SCRIPT: random.choice([CLOSING, "red", "blue"], NUM_DATA).astype(object),
            "built": days.strftime("%Y-%m-%d"),
            "garden": random.choice(["yes", "no"], NUM_DATA),
            "price": 2 * size + random.normal(0, 10, NUM_DATA).round(2),
        }
    )
    frame.loc[::7, "size"] = None
    frame.loc[::9, SCRIPT] = None
    return frame


@pytest.fixture(scope="session")
def priced(houses):
    """A regressor, and the table that it was fitted to."""
    X, y = houses.drop(columns="price"), houses["price"]
    model = bb.BBAlphaRegressor((), **QUICK).fit(X, y)
    return model, Table.of(model, X, y)


@pytest.fixture(scope="session")
def counted():
    """The same for counts and a matrix."""
    random = np.random.default_rng(1)
    X = random.normal(size=(NUM_DATA, 2))
    y = random.poisson(np.exp(0.5 + 0.5 * X[:, 0]))
    model = bb.BBAlphaRegressor((), likelihood="poisson", **QUICK).fit(X, y)
    return model, Table.of(model, X, y)


@pytest.fixture(scope="session")
def sorted_in_three():
    """The same for three classes."""
    random = np.random.default_rng(2)
    X = random.normal(size=(NUM_DATA, 2))
    y = np.array(["low", "middle", "high"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    model = bb.BBAlphaClassifier((), **QUICK).fit(X, y)
    return model, Table.of(model, X, y)


@pytest.fixture(scope="session")
def sorted_in_two():
    """The same for two classes and probit, whose network has one output."""
    random = np.random.default_rng(3)
    X = random.normal(size=(NUM_DATA, 2))
    y = X[:, 0] + 0.5 * random.normal(size=NUM_DATA) > 0
    model = bb.BBAlphaClassifier((), likelihood="probit", **QUICK).fit(X, y)
    return model, Table.of(model, X, y)


def as_chosen(houses, alpha, scores):
    """The regressor whose α is chosen by these scores of 60 rows, and its table."""
    X, y = houses.drop(columns="price"), houses["price"]

    def scored(estimator, posterior, rows):
        score = scores[float(posterior.alpha)]
        return score, score, np.zeros(NUM_DATA)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "scores_of_rows", scored)
        model = bb.BBAlphaRegressor((), alpha=alpha, **QUICK).fit(X, y)
    return model, Table.of(model, X, y)


@pytest.fixture(scope="session")
def stacked(houses):
    """A mixture of half of α = 0 and half of α = 1, whose mean would be ½."""
    is_first = np.arange(NUM_DATA) < NUM_DATA / 2
    zero, one = np.where(is_first, 0.0, -50.0), np.where(is_first, -50.0, 0.0)
    return as_chosen(houses, "stacked", {0.0: zero, 0.5: np.full(NUM_DATA, -60.0), 1.0: one})


@pytest.fixture(scope="session")
def tuned(houses):
    """A model at α = 1, which was chosen."""
    rows = np.arange(NUM_DATA) / NUM_DATA
    return as_chosen(houses, "tuned", {0.0: rows, 0.5: rows, 1.0: rows + 1})


@pytest.fixture(scope="session")
def stacked_data(stacked):
    """The data of the page of the mixture."""
    return explored(*stacked, show=False)


@pytest.fixture(scope="session")
def price_data(priced):
    """The data of the page of the regressor."""
    return explored(*priced, show=False)


@pytest.fixture(scope="session")
def class_data(sorted_in_three):
    """The data of the page of three classes."""
    return explored(*sorted_in_three, show=False)
