"""Facts about `bbalpha evaluate`: the scores of the estimator, for people and as JSON."""

import inspect
import json
import re

import numpy as np
import pytest

import bbalpha as bb
from bbalpha.cli.scores import LEVEL
from bbalpha.tables import read_table, write_table


@pytest.fixture
def scores(done):
    """Scores as JSON prints them."""

    def scores(model, table):
        result = done("evaluate", model, table, "--json")
        assert result.stderr == ""
        return json.loads(result.stdout)

    return scores


def test_evaluate_gives_the_scores_of_the_estimator(folder, prices, done, encoded, scores):
    inputs, targets, _ = encoded(folder / "prices.csv", "price", ["id"])
    model = bb.BBAlphaRegressor.load(prices)
    found = scores(prices, folder / "prices.csv")
    densities = model.score_samples(inputs, targets)
    lower, upper = model.predict_interval(inputs).T
    assert (found["rows"], found["task"], found["target"]) == (40, "regression", "price")
    assert found["log_likelihood"] == pytest.approx(densities.mean())
    standard_error = bb.metrics.standard_error(densities)
    assert found["log_likelihood_standard_error"] == pytest.approx(standard_error)
    assert found["rmse"] == pytest.approx(bb.metrics.rmse(model.predict(inputs), targets))
    assert found["coverage_90"] == np.mean((lower <= targets) & (targets <= upper))
    likelihood = f"{densities.mean():.4f} ± {standard_error:.4f}"
    table = done("evaluate", prices, folder / "prices.csv").stdout
    assert re.search(f"log-likelihood per row +{re.escape(likelihood)}\n", table)


@pytest.mark.usefixtures("optimized")
def test_scores_of_distributions_agree_with_quantiles(folder, prices, encoded, scores):
    inputs, targets, _ = encoded(folder / "prices.csv", "price", ["id"])
    model = bb.BBAlphaRegressor.load(prices)
    found = scores(prices, folder / "prices.csv")
    levels = bb.metrics.LEVELS
    lower = model.predict_quantiles(inputs, (1 - levels) / 2)
    upper = model.predict_quantiles(inputs, (1 + levels) / 2)
    covered = np.mean((lower <= targets[:, None]) & (targets[:, None] <= upper), axis=0)
    assert found["calibration_error"] == pytest.approx(np.abs(covered - levels).mean())
    # The CRPS is the integral of 2 (1{y < Q(p)} − p)(Q(p) − y) over all levels p.
    levels = (np.arange(200) + 0.5) / 200
    misses = model.predict_quantiles(inputs, levels) - targets[:, None]
    crps = np.mean(2 * ((misses > 0) - levels) * misses)
    draws = model.sample_y(inputs, 1000).T  # as many as `evaluate` takes
    error = np.abs(draws - targets).mean(axis=1).std() / np.sqrt(len(draws))
    assert found["crps"] == pytest.approx(crps, abs=4 * error)


def test_the_level_is_the_default_of_the_estimator():
    default = inspect.signature(bb.BBAlphaRegressor.predict_interval).parameters["coverage"]
    assert default.default == LEVEL


def test_evaluate_scores_classes(folder, states, done, encoded, scores):
    inputs, codes, _ = encoded(folder / "states.csv.gz", "state", ["id"])
    probabilities = bb.BBAlphaClassifier.load(states).predict_proba(inputs)
    found = scores(states, folder / "states.csv.gz")
    assert found["error_rate"] == bb.metrics.error_rate(probabilities, codes)
    error = bb.metrics.expected_calibration_error(probabilities, codes)
    assert found["expected_calibration_error"] == pytest.approx(error)
    chosen = np.log(probabilities[np.arange(len(codes)), codes])
    assert found["log_likelihood"] == pytest.approx(chosen.mean(), abs=1e-5)
    assert "error rate" in done("evaluate", states, folder / "states.csv.gz").stdout


def test_a_single_row_has_no_standard_error(folder, states, tmp_path, scores, done):
    write_table(read_table(folder / "states.csv.gz").slice(0, 1), tmp_path / "one.csv")
    assert scores(states, tmp_path / "one.csv")["log_likelihood_standard_error"] is None
    assert "nan" not in done("evaluate", states, tmp_path / "one.csv").stdout


def test_a_target_without_a_finite_density_is_named(folder, prices, tmp_path, refused):
    frame = read_table(folder / "prices.csv").to_pandas()
    frame.loc[3, "price"] = "1e25"
    write_table(frame, tmp_path / "far.csv")
    message = refused(tmp_path, "evaluate", prices, tmp_path / "far.csv")
    assert message == "1 row of 40 has no finite prediction or score: row 4."
    frame.loc[3, "price"] = "1e45"
    write_table(frame, tmp_path / "far.csv")
    message = refused(tmp_path, "evaluate", prices, tmp_path / "far.csv")
    assert message == (
        "target 'price' is too far from the training targets to be scored in row 4; got 1e+45."
    )


def test_a_target_is_needed_to_evaluate(folder, prices, tmp_path, refused):
    frame = read_table(folder / "prices.csv").drop_columns("price")
    write_table(frame, tmp_path / "new.csv")
    message = refused(tmp_path, "evaluate", prices, tmp_path / "new.csv")
    assert message.startswith("target 'price' is not a column of the table (the columns are 'id'")


def test_scores_come_from_one_pass_over_the_draws(folder, prices, states, done, passes):
    done("evaluate", prices, folder / "prices.csv")
    assert passes == [40]
    passes.clear()
    done("evaluate", states, folder / "states.csv.gz")
    assert passes == [40]


def test_evaluate_draws_test_rows(folder, prices, states, tmp_path, done, passes):
    said = done("evaluate", prices, folder / "prices.csv", "--plot", tmp_path / "p.svg").stdout
    assert re.search(r"picture +.*p\.svg\n", said)
    done("evaluate", states, folder / "states.csv.gz", "--plot", tmp_path / "s.png")
    assert passes == [40, 40, 40]  # the second is for the intervals in the picture
    assert b"<svg" in (tmp_path / "p.svg").read_bytes()
    assert (tmp_path / "s.png").read_bytes().startswith(b"\x89PNG")
    plot = ["--plot", tmp_path / "p.svg", "--json"]
    facts = json.loads(done("evaluate", prices, folder / "prices.csv", *plot).stdout)
    assert facts["picture"] == str(tmp_path / "p.svg")


def test_a_picture_that_cannot_be_drawn_is_refused(folder, prices, tmp_path, refused):
    command = ["evaluate", prices, folder / "prices.csv", "--plot"]
    assert refused(tmp_path, *command, "p.xyz").startswith("--plot must end in .png, .pdf or .svg")
    assert refused(tmp_path, *command, tmp_path / "no" / "p.png").startswith(
        "--plot must be a file that can be written"
    )
