"""Facts about the columns of a page: their grids, and the features of these."""

import numpy as np
import pandas
import pyarrow
import pytest

import bbalpha as bb
from bbalpha.explorer import columns as columns_of
from bbalpha.explorer.columns import GRID, MISSING, MOST_COLUMNS, shortened
from bbalpha.explorer.outcomes import _with_grid

TEXTS = ["</script><!-- \u2028 & <b>x</b>", "red", "blue"]


@pytest.fixture(scope="module")
def found(priced):
    _, table = priced
    encoder = table.encoder
    return columns_of.columns_of_frame(encoder, table.frame, range(len(encoder.columns)))


def test_columns_are_of_every_kind(found):
    assert [column.kind for column in found] == ["number", "text", "date", "boolean"]
    assert [len(column.grid) for column in found] == [GRID, 4, GRID, 2]
    assert found[1].labels[-1] == MISSING
    assert found[3].labels == ("no", "yes")


def test_a_grid_has_the_features_of_a_table_with_these_values(priced, found):
    _, table = priced
    features = table.encoder.encode(table.frame)[:5]
    for column in found:
        rows = _with_grid(column, features).reshape(len(column.grid), 5, -1)
        for value, block in zip(column.grid, rows, strict=True):
            frame = table.frame[:5].assign(**{column.name: cells(column, value)})
            assert block == pytest.approx(table.encoder.encode(frame), rel=1e-6)


def cells(column, value):
    """The cells that a user would type for a value of the grid."""
    if column.kind == "date":
        return str(np.datetime64(round(value * columns_of.MICROSECONDS_PER_DAY), "us"))
    if column.kind == "text":
        return {shortened(text): text for text in TEXTS}.get(column.labels[int(value)])
    return str(value) if column.kind == "number" else column.labels[int(value)]


def test_cells_are_what_the_table_holds(houses, found):
    number, _, date, boolean = found
    np.testing.assert_array_equal(number.cells, houses["size"])
    assert date.cells[:3].tolist() == [10957, 10958, 10959]
    assert boolean.cells == houses["garden"].tolist()


def test_few_values_are_the_grid_and_many_lie_between_their_quantiles():
    few, many = columns_of.columns_of_matrix(
        np.stack([np.arange(1000) % 3, np.arange(1000)], axis=1).astype(float), ["a", "b"], [0, 1]
    )
    assert few.grid.tolist() == [0, 1, 2]
    assert (many.grid[0], many.grid[-1], len(many.grid)) == pytest.approx((9.99, 989.01, GRID))


def test_a_column_whose_logarithm_the_model_sees_has_a_grid_of_equal_ratios():
    sizes = np.exp(np.random.default_rng(0).normal(3, 1.5, 200))
    frame = pandas.DataFrame({"size": [f"${size:.2f}" for size in sizes]})
    encoder = bb.TableEncoder().fit(frame).encoder_
    (column,) = columns_of.columns_of_frame(encoder, pyarrow.table(frame), [0])
    assert (column.is_log, column.unit) == (True, "$")
    ratios = column.grid[1:] / column.grid[:-1]
    assert ratios == pytest.approx(np.full(GRID - 1, ratios[0]))


def test_the_column_that_matters_is_the_most_influential():
    random = np.random.default_rng(0)
    X = random.normal(size=(80, MOST_COLUMNS + 3)) * 10.0 ** np.arange(-7, MOST_COLUMNS - 4)
    y = X[:, 4] / X[:, 4].std() + 0.1 * random.normal(size=80)
    model = bb.BBAlphaRegressor((), max_epochs=100, num_samples=8, random_state=0).fit(X, y)
    ranked = columns_of.influential(model, None, X)
    assert ranked[0] == 4
    assert len(ranked) == MOST_COLUMNS


def test_texts_are_shortened_to_one_line():
    assert shortened("a\nb\x1b") == "a b "
    assert len(shortened("x" * 1000)) == columns_of.LONGEST
