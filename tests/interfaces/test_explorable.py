"""Facts about `explore`: what it writes, and what it needs."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

import bbalpha as bb
from bbalpha.explorer import exploring
from bbalpha.explorer.page import is_page


@pytest.fixture
def only_own(monkeypatch):
    """The page compares no other α."""
    monkeypatch.setattr(exploring, "ALPHAS", ())


def test_explore_writes_a_page_and_replaces_it(tmp_path, fitted, table, only_own):
    path = tmp_path / "page.html"
    for _ in range(2):
        assert fitted.explore(path, table.inputs, table.numbers) is None
    assert is_page(path)
    assert [each.name for each in tmp_path.iterdir()] == ["page.html"]


def test_the_rows_are_needed(tmp_path, fitted, table):
    with pytest.raises(ValueError, match=r"X and y must be the rows .* does not keep them; got X "):
        fitted.explore(tmp_path / "page.html")
    with pytest.raises(ValueError, match="got y=None"):
        fitted.explore(tmp_path / "page.html", table.inputs)


def test_the_model_must_be_fitted(tmp_path, table):
    with pytest.raises(NotFittedError):
        bb.BBAlphaRegressor().explore(tmp_path / "page.html", table.inputs, table.numbers)


def test_two_rows_are_too_few(tmp_path, fitted, table):
    with pytest.raises(ValueError, match="X must have at least 3 rows to leave one out; got 2"):
        fitted.explore(tmp_path / "page.html", table.inputs[:2], table.numbers[:2])


def test_another_file_stays_unless_forced(tmp_path, fitted, table, only_own):
    path = tmp_path / "mine.html"
    path.write_text("mine")
    with pytest.raises(ValueError, match="path must not be a file that is not a page"):
        fitted.explore(path, table.inputs, table.numbers)
    assert path.read_text() == "mine"
    fitted.explore(path, table.inputs, table.numbers, force=True)
    assert is_page(path)


def test_weights_reach_the_other_fits(fitted, table, monkeypatch):
    given = []

    def fit(self, X, y, sample_weight=None):
        given.append(sample_weight)
        raise KeyboardInterrupt

    monkeypatch.setattr(bb.BBAlphaRegressor, "fit", fit)
    weights = np.full(len(table.inputs), 2.0)
    with pytest.raises(KeyboardInterrupt):
        fitted.explore("never.html", table.inputs, table.numbers, weights)
    assert given[0] is weights
