"""Facts about the data of a page: fits at several α, the rows, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest

import bbalpha as bb
from bbalpha.explorer import exploring
from bbalpha.explorer.exploring import Table, explored, fitted_at


def test_the_page_compares_the_usual_powers_and_marks_the_models_own(price_data):
    assert price_data["alphas"] == [-1, 0, 0.25, 0.5, 1]
    assert price_data["alphas"][price_data["chosen"]] == 0.5
    assert len(price_data["fits"]) == 5


def test_a_power_of_the_users_own_is_compared_too():
    X = np.linspace(0, 1, 8)[:, None]
    settings = {"alpha": 0.3, "max_epochs": 1, "num_predictive_samples": 20, "random_state": 0}
    model = bb.BBAlphaRegressor((), **settings).fit(X, X[:, 0] + np.arange(8) % 3)
    data = explored(model, Table.of(model, X, X[:, 0]), show=False)
    assert data["alphas"] == pytest.approx([-1, 0, 0.25, 0.3, 0.5, 1])
    assert data["chosen"] == 3
    assert data["rows"]["id"] == [str(number) for number in range(1, 9)]


def test_a_mixture_is_shown_beside_the_powers_and_not_as_one(stacked, priced, stacked_data):
    """Half of α = 0 and half of α = 1 is not α = ½, whose fit is shown too."""
    assert stacked_data["alphas"] == [-1, 0, 0.25, 0.5, 1, None]
    assert stacked_data["chosen"] == 5
    model, table = stacked
    own, half = stacked_data["fits"][5], stacked_data["fits"][3]
    verdict = bb.judge(model, table.inputs, table.targets)
    assert own["scores"]["log_likelihood"] == pytest.approx(verdict.held_out, abs=1e-6)
    assert own["rows"]["predicted"] == pytest.approx(model.predict(table.inputs), rel=1e-5)
    at_half = priced[0].predict(table.inputs)  # the same settings with α = ½
    assert half["rows"]["predicted"] == pytest.approx(at_half, rel=1e-5)
    assert stacked_data["reason"].startswith(
        "The model is a mixture. Left-out rows are predicted best by a mixture of 50% of α = 0, "
        "50% of α = 1: "
    )
    note = "The networks of the mixture come from several fits: 50% from α = 0 and 50% from α = 1."
    assert stacked_data["notes"][0] == note


def test_a_chosen_power_is_marked_with_the_reason_for_it(tuned, monkeypatch):
    monkeypatch.setattr(exploring, "ALPHAS", (0.0,))
    model, table = tuned
    data = explored(model, table, show=False)
    assert data["alphas"] == [0, 1]
    assert data["chosen"] == 1
    assert data["reason"].startswith(
        "α = 1 was chosen when the model was fitted. Left-out rows are predicted best, 1.000 ± "
        "0.000 nats better than at α = 0. "
    )


def test_a_fit_at_the_same_power_is_the_same_fit(priced):
    model, table = priced
    again = fitted_at(model, 0.5, table)
    np.testing.assert_array_equal(again.posterior_.q.mean, model.posterior_.q.mean)
    assert fitted_at(model, 0.0, table).posterior_.alpha == 0
    assert model.alpha == "auto"


def test_scores_are_those_of_the_judge(priced, price_data):
    model, table = priced
    scores = price_data["fits"][price_data["chosen"]]["scores"]
    verdict = bb.judge(model, table.inputs, table.targets)
    assert scores["log_likelihood"] == pytest.approx(verdict.held_out, abs=1e-6)


def test_rows_are_those_of_the_table(houses, price_data):
    rows = price_data["rows"]
    assert rows["observed"].tolist() == houses["price"].tolist()
    assert [column["name"] for column in price_data["columns"]] == list(houses.columns[:-1])
    assert price_data["target"] == "price"


def test_rows_of_classes_have_labels(sorted_in_three, class_data):
    model, table = sorted_in_three
    assert class_data["rows"]["observed"] == table.targets.tolist()
    fit = class_data["fits"][class_data["chosen"]]
    assert fit["rows"]["predicted"] == model.predict(table.inputs).tolist()
    right = np.mean(model.predict(table.inputs) == table.targets)
    assert np.mean(fit["rows"]["right"]) == right
    assert class_data["classes"] == ["high", "low", "middle"]


def test_two_classes_have_one_curve(sorted_in_two):
    data = explored(*sorted_in_two, show=False)
    assert data["classes"] == ["True"]
    assert data["fits"][0]["curves"][0]["mean"].shape[1:] == (1,)


def test_long_tables_are_shown_in_part(counted, monkeypatch):
    model, table = counted
    monkeypatch.setattr(exploring, "ALPHAS", ())
    monkeypatch.setattr(exploring, "MOST_ROWS", 10)
    data = explored(model, table, show=False)
    assert len(data["rows"]["id"]) == len(data["fits"][0]["rows"]["low"]) == 10
    assert (data["rows"]["id"][0], data["rows"]["id"][-1]) == ("1", "60")
    assert (data["scored"], data["rows_in_all"], data["kind"]) == (60, 60, "count")


def test_a_power_whose_fit_fails_is_left_out_and_noted(counted, monkeypatch):
    model, table = counted

    def fail(model, alpha, table):
        raise bb.NonFiniteEnergyError(3, model.posterior_)

    monkeypatch.setattr(exploring, "fitted_at", fail)
    data = explored(model, table, show=False)
    assert data["alphas"] == [0.5]
    assert data["notes"][-1].startswith("α = −1, α = 0, α = ¼ and α = 1 are left out")


def test_an_interrupted_fit_ends_it(counted, monkeypatch):
    model, table = counted
    info = replace(model.posterior_.info, stopped="interrupted")

    def fit(self, *args):
        self.posterior_ = replace(model.posterior_, info=info)

    monkeypatch.setattr(bb.BBAlphaRegressor, "fit", fit)
    with pytest.raises(KeyboardInterrupt):
        explored(model, table, show=False)


def test_several_targets_are_refused():
    X = np.arange(10.0)[:, None]
    model = bb.BBAlphaRegressor((), max_epochs=1, random_state=0).fit(X, np.hstack([X, -X]))
    with pytest.raises(ValueError, match="y must have one column for a page; got 2"):
        explored(model, Table.of(model, X, np.hstack([X, -X])), show=False)
