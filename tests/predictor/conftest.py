"""A table with every kind of column, and the encoder of a model that was fitted to it."""

import numpy as np
import pandas
import pytest

from bbalpha.predictor.rows import RowEncoder
from bbalpha.tables import Encoder
from bbalpha.tables.cells import MISSING


@pytest.fixture(scope="session")
def houses():
    """Numbers (one with heavy tails and gaps), texts, booleans and dates; gaps are None."""
    stream, num = np.random.RandomState(0), 120
    area = np.where(stream.rand(num) < 0.2, np.nan, stream.lognormal(4, 1.5, num))
    days = pandas.to_timedelta(stream.randint(0, 5000, num), unit="D")
    moments = pandas.Timestamp("2001-01-01") + days + pandas.to_timedelta(stream.rand(num), "D")
    towns = stream.choice(["Ely", "Wells", "Bath", "York"], num, p=[0.4, 0.3, 0.29, 0.01])
    frame = pandas.DataFrame(
        {
            "rooms": stream.randint(1, 9, num),
            "area": area,
            "town": np.where(stream.rand(num) < 0.1, None, towns),
            "street": stream.randint(0, 30, num).astype(str) + " Lane",
            "new": stream.rand(num) < 0.4,
            "sold": moments.floor("us"),
            "always": "same",
        }
    )
    return frame


@pytest.fixture(scope="session")
def encoder(houses):
    return Encoder.learn(houses, houses["rooms"].to_numpy(float))


@pytest.fixture(scope="session")
def row_encoder(encoder):
    columns = [column.to_json() for column in encoder.columns]
    return RowEncoder(columns, frozenset(MISSING), frozenset({"price"}))


@pytest.fixture(scope="session")
def rows(houses):
    """The table as a service would get it."""
    cells = houses.astype(object).where(houses.notna(), None)
    cells["sold"] = [moment.isoformat() for moment in houses["sold"]]
    return cells.to_dict("records")
