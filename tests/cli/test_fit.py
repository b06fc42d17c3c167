"""Facts about `bbalpha fit`: what it says and writes, and every input that it turns away."""

import json
import re
import shutil
from contextlib import nullcontext

import numpy as np
import pytest

import bbalpha as bb
from bbalpha.cli.fit import LIKELIHOODS
from bbalpha.cli.saved import ESTIMATORS
from bbalpha.interfaces.training import FEWEST_STEPS, NUM_EPOCHS
from bbalpha.planning import NUM_STEPS

GOOD = "x,y\n1,2\n2,3\n3,5\n4,4\n"


def test_fit_says_what_it_does_and_names_the_model_after_the_data(folder):
    said = (folder / "prices.txt").read_text()
    assert "prices.csv: 40 rows" in said
    assert "price, a number" in said
    assert (
        "3 columns, 8 features: 1 number, 1 date ('built') and 1 text ('color' in 3 categories)"
    ) in said
    assert "linear, heteroscedastic likelihood" in said
    assert re.search(r"energy +\S+ \(lower is better\)", said)
    assert re.search(r"seconds +reading \d+\.\d, compiling \d+\.\d, training \d+\.\d\n", said)
    assert re.search(r"log-likelihood +-?\S+ per training row, -?\S+ if left out\n", said)
    assert re.search(r"simpler models +constant -?\S+, linear -?\S+ if left out\n", said)
    assert re.search(r"model +prices.safetensors\n", said)
    assert "one of 2 classes: 'kept' and 'sold'" in (folder / "states.txt").read_text()
    assert (folder / "states.safetensors").is_file()


def test_classes_keep_the_order_of_numbers_and_names_may_be_odd(tmp_path, done, written):
    name = "cost in $日本_{$"
    rows = [f"{x},{y}" for x, y in zip(range(30), [2, 10, 1] * 10, strict=True)]
    table = written(tmp_path, "\n".join([f"[x],{name}", *rows]))
    model, plot = tmp_path / "m.safetensors", tmp_path / "m.svg"
    output = ["--output", model, "--plot", plot, "--quiet"]
    options = ["--target", name, "--task", "classification", "--hidden", "none", "--epochs", "3"]
    assert done("fit", table, *options, *output).output == ""
    assert "<svg" in plot.read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"m.safetensors", "m.svg", "table.csv"}
    found = done("predict", model, table).stdout.splitlines()
    assert found[0] == "prediction,p_1,p_2,p_10"
    label, *probabilities = found[1].split(",")
    assert label == ["1", "2", "10"][np.argmax([float(p) for p in probabilities])]


def test_a_model_is_replaced_and_the_same_seed_gives_the_same_one(
    folder, tmp_path, done, quick, written
):
    model = written(tmp_path, "something else", "m.safetensors")
    options = ["--target", "price", *quick, "--output", model, "--quiet"]
    done("fit", folder / "prices.csv", *options, "--force")
    first = done("predict", model, folder / "prices.csv").stdout
    assert first == done("predict", folder / "prices.safetensors", folder / "prices.csv").stdout
    done("fit", folder / "prices.csv", *options, "--seed", "1")
    assert first != done("predict", model, folder / "prices.csv").stdout


def test_quiet_prints_nothing(folder, tmp_path, done, quick):
    options = ["--target", "price", *quick, "--output", tmp_path / "m.safetensors", "--quiet"]
    assert done("fit", folder / "prices.csv", *options).output == ""


def test_a_power_chosen_by_leave_one_out_is_printed_drawn_and_saved(folder, tmp_path, done, quick):
    model, plot = tmp_path / "m.safetensors", tmp_path / "m.svg"
    command = ["fit", folder / "prices.csv", "--target", "price", *quick, "--alpha", "tuned"]
    said = done(*command, "--output", model, "--plot", plot).output
    curve = bb.BBAlphaRegressor.load(model).alpha_curve_
    assert "linear, α chosen by leave-one-out, heteroscedastic likelihood" in said
    assert f"{curve.chosen:g}. {curve.reason}" in re.sub(r"\s+", " ", said)
    assert "Leave-one-out" in plot.read_text()
    facts = json.loads(done(*command, "--output", model, "--json").stdout)
    assert facts["alpha"] == curve.chosen
    assert facts["alpha_curve"] == curve.to_json() | {"reason": curve.reason}


def test_a_mixture_is_printed_drawn_and_saved(folder, tmp_path, done, quick):
    model, plot = tmp_path / "m.safetensors", tmp_path / "m.svg"
    command = ["fit", folder / "prices.csv", "--target", "price", *quick, "--alpha", "stacked"]
    said = done(*command, "--output", model, "--plot", plot).output
    curve = bb.BBAlphaRegressor.load(model).alpha_curve_
    assert sum(curve.weights) == pytest.approx(1)
    assert f"{curve.reason}" in re.sub(r"\s+", " ", said)
    assert "Leave-one-out" in plot.read_text()
    facts = json.loads(done(*command, "--output", model, "--json").stdout)
    assert facts["alpha_curve"] == curve.to_json() | {"reason": curve.reason}
    assert facts["alpha"] == pytest.approx(np.dot(curve.alphas, curve.weights), abs=1e-6)
    assert done("predict", model, folder / "prices.csv").exit_code == 0


def test_the_calibration_is_printed_with_its_repair_and_saved(folder, tmp_path, done, quick):
    """Three epochs leave the noise far too narrow."""
    model = tmp_path / "m.safetensors"
    command = ["fit", folder / "prices.csv", "--target", "price", *quick, "--output", model]
    plain = json.loads(done(*command, "--json").stdout)["calibration"]
    assert bb.BBAlphaRegressor.load(model).calibration_ is None
    said = re.sub(r"\s+", " ", done(*command, "--calibrate").stdout)
    facts = json.loads(done(*command, "--calibrate", "--json").stdout)["calibration"]
    found = bb.BBAlphaRegressor.load(model).calibration_
    assert (plain["factor"], plain["is_calibrated"]) == (1, False)
    assert found.factor > 1.5
    assert f"spread multiplied by {found.factor:.2f}" in said
    assert facts["said"] == str(found)
    assert facts["covered"] == list(found.covered)


def test_the_program_fits_and_refuses(folder, tmp_path, done, quick, started):
    shutil.copy(folder / "prices.csv", tmp_path)
    process = started("fit", "prices.csv", "--target", "price", *quick, cwd=tmp_path)
    out, err = process.communicate()
    assert process.returncode == 0
    first, second = err.splitlines()
    reason = "3 epochs with 6 steps in all are too few to judge. Raise --epochs."
    assert first == f"Warning: fit did not converge: {reason}"
    assert second.startswith("Warning: a linear model predicts rows that are left out better than")
    assert "converged" in out
    assert "prices.safetensors" in out
    done("predict", tmp_path / "prices.safetensors", tmp_path / "prices.csv")
    process = started("predict", "prices.csv", "no.csv", cwd=tmp_path)
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert err == "Error: no.csv does not exist.\n"


BEYOND = {
    "--epochs": (2**31, r"must be a whole number from 1 to 2147483647; got '2147483648'"),
    "--batch-size": (10**30, r"must be a whole number from 1 to 2147483647; got '10+'"),
    "--samples": (10**6 + 1, r"must be a whole number from 1 to 1000000; got '1000001'"),
    "--alpha": ("-1e308", r"must be less than 1e\+15 in size; got '-1e308'"),
    "--learning-rate": ("1e15", r"must be less than 1e\+15; got '1e15'"),
    "--prior-scale": ("1e15", r"must be less than 1e\+15; got '1e15'"),
    "--hidden": ("5,100001", r"must be whole numbers from 1 to 100000, .*; got '5,100001'"),
}


@pytest.mark.parametrize("option", BEYOND)
def test_an_option_beyond_its_limits_is_refused_by_its_name_before_the_data(
    tmp_path, refused, option
):
    value, message = BEYOND[option]
    found = refused(tmp_path, "fit", "nowhere.csv", "--target", "y", option, value)
    assert re.fullmatch(rf"{option} {message}\.", found)


def test_very_long_options_are_refused_in_one_short_sentence(tmp_path, refused):
    command = ["fit", "nowhere.csv", "--target", "y"]
    found = refused(tmp_path, *command, "--hidden", "1" * 5000)
    assert re.fullmatch(r"--hidden must be whole numbers .*; got '1+\.\.\.1+'\.", found)
    assert len(found) < 300
    found = refused(tmp_path, *command, "--hidden", ",".join("1" * 1001))
    assert found == "--hidden must name at most 1,000 layers; got 1,001."


@pytest.mark.parametrize("task", ESTIMATORS)
def test_the_settings_are_the_defaults_of_the_estimators_but_for_the_seed(
    tmp_path, run, written, monkeypatch, task
):
    found = {}

    def record(estimator, X, y, **settings):
        found.update(estimator.get_params())
        raise KeyboardInterrupt

    monkeypatch.setattr(ESTIMATORS[task], "fit", record)
    output = ["--output", tmp_path / "m.safetensors"]
    run("fit", written(tmp_path, GOOD), "--target", "y", "--task", task, *output)
    expected = ESTIMATORS[task]().get_params() | {"random_state": 0, "verbose": True}
    assert found == expected


def test_the_help_tells_the_defaults(done):
    said = " ".join(done("fit", "--help").stdout.split())
    settings = bb.BBAlphaRegressor().get_params()
    assert f"by default {NUM_EPOCHS}, but never fewer than {FEWEST_STEPS:,}" in said
    assert f"more than {NUM_STEPS:,} minibatches" in said
    assert f"per minibatch; by default {settings['num_samples']}." in said
    assert f"Rows per minibatch; by default {settings['batch_size']}." in said
    assert f"linear model; by default {settings['hidden_layer_sizes'][0]}." in said
    assert f"deviations of the prior; by default {settings['prior_scale']:g}." in said
    assert "a tenth of the rows" in said
    assert settings["validation_fraction"] == 0.1


def test_the_likelihoods_are_those_of_the_estimators():
    found = {task: estimator._likelihoods for task, estimator in ESTIMATORS.items()}
    assert found == LIKELIHOODS


def target(name="y", *options):
    return ["--target", name, *options]


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (GOOD, target("Yy"), r"target 'Yy' is not a column .*\(did you mean 'y'\?\)"),
        (GOOD, target("y", "--drop", "xs"), r"--drop 'xs' is not a col.*\(did you mean 'x'\?\)"),
        (GOOD, target("y", "--drop", "y"), "--drop must not name the target; got 'y'"),
        (GOOD, target("y", "--drop", "x"), "the table has no column other than the target"),
        (GOOD, target("y", "--text", "z"), "--text 'z' is not a column of the table"),
        ("x,y\n1,a\n2,a\n", target(), "target 'y' is 'a' in every row"),
        ("x,y\n1,1\n2,2\nhm,3\n", target(), "column 'x' .*; got 'hm' in row 3"),
        ("x,y\n1,1\n2,\n3,3\n", target(), "target 'y' is missing in row 2 .--skip-missing-target"),
        ("x,y\n1/2/20,1\n2/3/20,2\n4/4/20,4\n", target(), "read in two ways, such as '1/2/20' in"),
        ("x,y\na,1\na,2\na,4\n", target(), "no column .* can help to predict: 'x' is 'a' in ev"),
        (GOOD, target("y", "--id", "z"), "--id 'z' is not a column of the table"),
        (GOOD, target("y", "--id", "y"), "--id must not name the target; got 'y'"),
        ("", target(), r"table.csv is empty\."),
        ("x,y\n", target(), "table.csv has no rows below its header"),
        (b"x,y\n1,\xe9\n", target(), "not UTF-8 text: line 2 has the byte 0xe9"),
        (GOOD, target("y", "--alpha", "5"), r"alpha must not exceed .*alpha=5.0 with 4 data"),
        (GOOD, target("y", "--alpha", "nan"), "--alpha must be a finite number; got 'nan'"),
        (GOOD, target("y", "--alpha", "a"), "--alpha must be a finite number; got 'a'"),
        (
            GOOD,
            target("y", "--epochs", "0"),
            "--epochs must be a whole number from 1 to 2.*; got '0'",
        ),
        (GOOD, target("y", "--epochs", "1.5"), "--epochs must be a whole number .*; got '1.5'"),
        (
            GOOD,
            target("y", "--samples", "0"),
            "--samples must be a whole number from 1 to 1000000; got",
        ),
        (GOOD, target("y", "--batch-size", "0"), "--batch-size must be a whole number from 1 to"),
        (GOOD, target("y", "--seed", "-1"), "--seed must be a whole .* 0 to 4294967295; got '-1'"),
        (GOOD, target("y", "--seed", 2**32), "--seed must be a whole number from 0 to 4294967295"),
        (GOOD, target("y", "--hidden", "abc"), "--hidden must be whole numbers .*; got 'abc'"),
        (GOOD, target("y", "--hidden", "5,0"), "--hidden must be whole numbers .*; got '5,0'"),
        (GOOD, target("y", "--hidden", ""), "--hidden must be whole numbers .*; got ''"),
        (GOOD, target("y", "--learning-rate", "0"), "--learning-rate must be positive and finite"),
        (GOOD, target("y", "--learning-rate", "x"), "--learning-rate must be positive and finite"),
        (
            GOOD,
            target("y", "--likelihood", "probit"),
            "--likelihood must be one of hetero.*regress",
        ),
        (
            GOOD,
            target("y", "--likelihood", "x"),
            "--likelihood must be auto, hetero.* or probit; got",
        ),
        (GOOD, target("y", "--task", "rank"), "--task must be regression or class.*; got 'rank'"),
        (GOOD, target("y", "--plot", "p.xyz"), "--plot must end in .png, .pdf or .svg; got p.xyz"),
        (
            GOOD.replace("5", "5.5"),
            target("y", "--likelihood", "poisson"),
            r"target 'y' must hold counts for --likelihood poisson; got 5\.5\.",
        ),
        (
            GOOD.replace(",", ":"),
            target(),
            "the only column is 'x:y'; commas, semicolons, .* must separate the cells",
        ),
    ],
)
def test_fit_refuses_in_one_sentence(
    tmp_path, monkeypatch, refused, written, table, options, message
):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, table)
    assert re.search(message, refused(tmp_path, "fit", "table.csv", *options))


def test_the_facts_of_a_fit_come_from_one_pass_over_the_draws(
    folder, quick, done, tmp_path, passes, monkeypatch
):
    monkeypatch.setattr("bbalpha.cli.training.rehearsing", lambda *_: nullcontext())
    done(
        "fit", folder / "prices.csv", "--target", "price", "-o", tmp_path / "m.safetensors", *quick
    )
    assert passes == [40]


def test_fit_prints_one_json_object(folder, quick, done, tmp_path):
    model = tmp_path / "m.safetensors"
    options = ["--target", "price", "-o", model, *quick, "--json", "--prior-scale", "0.5"]
    result = done("fit", folder / "prices.csv", *options)
    facts = json.loads(result.stdout)
    assert result.stderr == ""
    assert (facts["rows"], facts["converged"], facts["model"]) == (40, False, str(model))
    assert facts["reason"].endswith("steps in all are too few to judge. Raise --epochs.")
    assert set(facts["seconds"]) == {"reading", "compiling", "training"}
    assert set(facts["log_likelihood"]) == {"rows", "training", "held_out", "constant", "linear"}
    assert facts["warning"].startswith("a linear model predicts")
    assert bb.BBAlphaRegressor.load(model).prior_scale == 0.5


def test_a_model_of_something_else_is_not_replaced(folder, prices, quick, refused, done, tmp_path):
    model = tmp_path / "m.safetensors"
    shutil.copy(prices, model)
    command = ["fit", folder / "prices.csv", "-o", model, "--quiet", *quick]
    told = refused(tmp_path, *command, "--target", "color", "--skip-missing-target")
    assert told.endswith(
        "m.safetensors holds a model of another target, 'price'; name another --output, or replace "
        "it with --force."
    )
    told = refused(tmp_path, *command, "--target", "price", "--drop", "color")
    assert "holds a model of 'price' from other columns; name another" in told
    bb.BBAlphaRegressor.load(prices).save(model)
    assert "holds a model that was saved from Python" in refused(
        tmp_path, *command, "--target", "price"
    )
    model.write_text("something else")
    told = refused(tmp_path, *command, "--target", "price")
    assert "holds something that is not a model of this version" in told
    done(*command, "--target", "price", "--force")
    done(*command, "--target", "price")  # the same target and columns


@pytest.mark.parametrize("answer", ["y", "n"])
def test_a_terminal_is_asked_before_a_model_is_replaced(
    folder, prices, quick, run, tmp_path, monkeypatch, answer
):
    model = tmp_path / "m.safetensors"
    shutil.copy(prices, model)
    asked = []
    monkeypatch.setattr("bbalpha.cli.replacing._on_terminal", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda text, err: asked.append(text) or answer == "y")
    command = ["fit", folder / "prices.csv", "-o", model, "--quiet", *quick, "--drop", "color"]
    result = run(*command, "--target", "price")
    assert asked == [f"{model} holds a model of 'price' from other columns. Replace it?"]
    assert result.exit_code == (0 if answer == "y" else 2)
    assert (model.read_bytes() == prices.read_bytes()) == (answer == "n")


def test_two_rows_are_fitted_without_a_verdict(tmp_path, done, written):
    model = tmp_path / "m.safetensors"
    table = written(tmp_path, "x,y\n1,2\n2,3\n")
    options = ["--task", "regression", "-o", model, "--hidden", "none", "--epochs", "3"]
    said = done("fit", table, "--target", "y", *options).stdout
    assert "if left out" not in said
