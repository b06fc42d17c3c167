"""The command line, from tables to models and predictions, and every input it turns away."""

import io
import json
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas
import pytest
from typer.testing import CliRunner

import bbalpha as bb
from bbalpha.cli import app
from bbalpha.files import model_file
from bbalpha.interfaces import estimator_file
from bbalpha.tables import Encoder, Target, read_table, write_table

COMMAND = Path(sys.executable).with_name("bbalpha")
COMMANDS = [
    *("fit", "predict", "evaluate", "inspect", "datasets", "datasets list", "datasets fetch"),
    *("reproduce", "report"),
]
TINY = ["--hidden", "none", "--epochs", "3"]  # a fit of a moment
HEAVY = {"jax", "matplotlib", "numpy", "pandas", "pyarrow", "rich", "sklearn"}
CLASSES = {"BBAlphaRegressor": bb.BBAlphaRegressor, "BBAlphaClassifier": bb.BBAlphaClassifier}


def run(*args):
    return CliRunner().invoke(app, [str(arg) for arg in args], catch_exceptions=False)


def done(*args):
    """The result of a command that succeeds."""
    result = run(*args)
    assert result.exit_code == 0, result.output
    return result


def started(*args, **settings):
    """The command as users start it."""
    settings = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True} | settings
    return subprocess.Popen([COMMAND, *map(str, args)], **settings)


def contents(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def refused(folder, *args, code=2):
    """The one sentence of a command that fails, having changed nothing in the folder."""
    before = contents(folder)
    result = run(*args)
    assert result.exit_code == code, result.output
    assert contents(folder) == before
    (line,) = result.stderr.splitlines()
    assert line.startswith("Error: ")
    assert line.endswith((".", "?"))
    return line.removeprefix("Error: ")


def written(folder, text, name="table.csv"):
    path = folder / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def houses(num_rows=40):
    """Numbers, dates and texts, some of them missing, and two targets."""
    generator = np.random.default_rng(0)
    size = generator.uniform(40, 200, num_rows).round(1)
    price = 2 * size + generator.normal(0, 10, num_rows)
    days = pandas.Timestamp("2000-01-01") + pandas.to_timedelta(np.arange(num_rows), unit="D")
    frame = pandas.DataFrame(
        {
            "id": [f"house {number}" for number in range(num_rows)],
            "size": pandas.Series(size).astype(object),
            "color": generator.choice(["red", "blue"], num_rows).astype(object),
            "built": days.strftime("%Y-%m-%d"),
            "price": price.round(2),
            "state": np.where(price > 240, "sold", "kept"),
        }
    )
    frame.loc[::7, "size"] = None
    frame.loc[::9, "color"] = None
    return frame


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Tables, and a model of each task fitted from the command line with its picture."""
    folder = tmp_path_factory.mktemp("cli")
    frame = houses()
    frame.drop(columns="state").to_csv(folder / "prices.csv", index=False)
    frame.drop(columns="price").to_csv(folder / "states.csv.gz", index=False)
    options = ["--drop", "id", "--impute", "median", *TINY]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        prices = done("fit", "prices.csv", "--target", "price", *options, "--plot", "prices.png")
        states = done("fit", "states.csv.gz", "--target", "state", *options)
    (folder / "prices.txt").write_text(prices.stdout)
    (folder / "states.txt").write_text(states.stdout)
    return folder


@pytest.fixture
def prices(folder):
    return folder / "prices.safetensors"


@pytest.fixture
def states(folder):
    return folder / "states.safetensors"


def encoded(path, target, drop=()):
    """The inputs and the target of a table as the command line encodes them."""
    frame = read_table(path)
    inputs = frame.drop(columns=[target, *drop])
    labels = Target.learn(frame, target)
    return Encoder.learn(inputs, impute="median").encode(inputs), labels.encode(frame), labels


# From a table to scores


def test_fit_says_what_it_does_and_names_the_model_after_the_data(folder):
    said = (folder / "prices.txt").read_text()
    assert "prices.csv: 40 rows" in said
    assert "price, a number" in said
    assert "3 columns, 5 features: 1 number, 1 date ('built') and 1 text" in said
    assert "linear, α = 0.5, gaussian likelihood" in said
    assert re.search(r"energy +\S+, lower is better", said)
    assert re.search(r"training table +log-likelihood -?\d", said)
    assert re.search(r"model +prices.safetensors\n", said)
    assert "one of 2 classes: 'kept' and 'sold'" in (folder / "states.txt").read_text()
    assert (folder / "states.safetensors").is_file()


def test_predictions_of_numbers_are_those_of_the_estimator_in_python(folder, prices):
    inputs, targets, _ = encoded(folder / "prices.csv", "price", ["id"])
    model = bb.BBAlphaRegressor(hidden_layer_sizes=(), max_epochs=3, random_state=0)
    mean, std = model.fit(inputs, targets).predict(inputs, return_std=True)
    done("predict", prices, folder / "prices.csv", "--output", folder / "p.csv")
    found = pandas.read_csv(folder / "p.csv")
    assert list(found) == ["mean", "std", "q0.05", "q0.5", "q0.95"]
    np.testing.assert_allclose(found["mean"], mean)
    np.testing.assert_allclose(found["std"], std)
    np.testing.assert_allclose(found.iloc[:, 2:], model.predict_quantiles(inputs))


def test_predictions_of_classes_are_those_of_the_estimator_in_python(folder, states):
    inputs, codes, target = encoded(folder / "states.csv.gz", "state", ["id"])
    labels = np.array(target.classes)[codes]
    model = bb.BBAlphaClassifier(hidden_layer_sizes=(), max_epochs=3, random_state=0)
    model.fit(inputs, labels)
    done("predict", states, folder / "states.csv.gz", "--output", folder / "s.csv")
    found = pandas.read_csv(folder / "s.csv")
    assert list(found) == ["prediction", "p_kept", "p_sold"]
    assert found["prediction"].tolist() == model.predict(inputs).tolist()
    np.testing.assert_allclose(found.iloc[:, 1:], model.predict_proba(inputs))
    again = bb.BBAlphaClassifier.load(states)
    assert again.predict(inputs).tolist() == model.predict(inputs).tolist()


def test_classes_keep_the_order_of_numbers_and_names_may_be_odd(tmp_path):
    name = "cost in $日本_{$"
    rows = [f"{x},{y}" for x, y in zip(range(30), [2, 10, 1] * 10, strict=True)]
    table = written(tmp_path, "\n".join([f"[x],{name}", *rows]))
    model, plot = tmp_path / "m.safetensors", tmp_path / "m.svg"
    output = ["--output", model, "--plot", plot, "--quiet"]
    options = ["--target", name, "--task", "classification", *TINY]
    assert done("fit", table, *options, *output).output == ""
    assert "<svg" in plot.read_text()
    assert {path.name for path in tmp_path.iterdir()} == {"m.safetensors", "m.svg", "table.csv"}
    found = done("predict", model, table).stdout.splitlines()
    assert found[0] == "prediction,p_1,p_2,p_10"
    label, *probabilities = found[1].split(",")
    assert label == ["1", "2", "10"][np.argmax([float(p) for p in probabilities])]


@pytest.mark.parametrize("name", ["new.parquet", "new.csv.gz", "new.tsv", "new.csv.zst"])
def test_tables_of_every_kind_give_the_same_predictions(folder, prices, tmp_path, name):
    frame = read_table(folder / "prices.csv").drop(columns=["price", "id"])
    write_table(frame, tmp_path / name)
    result = done("predict", prices, tmp_path / name, "-o", tmp_path / f"out.{name}")
    assert result.stdout == ""
    assert result.stderr == f"Predictions of 40 rows are in {tmp_path / f'out.{name}'}.\n"
    expected = done("predict", prices, folder / "prices.csv").stdout
    found = read_table(tmp_path / f"out.{name}").astype(float)
    pandas.testing.assert_frame_equal(found, pandas.read_csv(io.StringIO(expected)))


def test_predictions_go_to_standard_output_alone(folder, prices):
    command = ["predict", prices, folder / "prices.csv", "--quantiles"]
    result = done(*command, "0.5")
    assert result.stderr == ""
    assert result.stdout.startswith("mean,std,q0.5\n")
    assert result.stdout.count("\n") == 41
    assert result.stdout == done(*command, "0.5", "--output", "-").stdout
    assert done(*command, "none").stdout.startswith("mean,std\n")


def test_evaluate_gives_the_scores_of_the_estimator(folder, prices):
    inputs, targets, _ = encoded(folder / "prices.csv", "price", ["id"])
    model = bb.BBAlphaRegressor.load(prices)
    result = done("evaluate", prices, folder / "prices.csv", "--json")
    assert result.stderr == ""
    scores = json.loads(result.stdout)
    densities = model.score_samples(inputs, targets)
    draws = model.sample_y(inputs, 1000).T
    lower, upper = model.predict_interval(inputs).T
    assert (scores["rows"], scores["task"], scores["target"]) == (40, "regression", "price")
    assert scores["log_likelihood"] == pytest.approx(densities.mean())
    standard_error = bb.metrics.standard_error(densities)
    assert scores["log_likelihood_standard_error"] == pytest.approx(standard_error)
    assert scores["rmse"] == pytest.approx(bb.metrics.rmse(model.predict(inputs), targets))
    assert scores["crps"] == pytest.approx(bb.metrics.crps(draws, targets))
    assert scores["coverage_90"] == np.mean((lower <= targets) & (targets <= upper))
    calibration_error = bb.metrics.calibration_error(draws, targets)
    assert scores["calibration_error"] == pytest.approx(calibration_error)
    likelihood = f"{densities.mean():.4f} ± {standard_error:.4f}"
    table = done("evaluate", prices, folder / "prices.csv").stdout
    assert re.search(f"log-likelihood per row +{re.escape(likelihood)}\n", table)


def test_draws_are_taken_a_part_of_the_rows_at_a_time(folder, prices, monkeypatch):
    whole = json.loads(done("evaluate", prices, folder / "prices.csv", "--json").stdout)
    monkeypatch.setattr("bbalpha.cli.scores.ROWS_AT_ONCE", 20)
    parts = json.loads(done("evaluate", prices, folder / "prices.csv", "--json").stdout)
    assert parts["crps"] == pytest.approx(whole["crps"], rel=0.05)
    assert parts["calibration_error"] == pytest.approx(whole["calibration_error"], abs=0.02)


def test_evaluate_scores_classes(folder, states):
    inputs, codes, _ = encoded(folder / "states.csv.gz", "state", ["id"])
    probabilities = bb.BBAlphaClassifier.load(states).predict_proba(inputs)
    scores = json.loads(done("evaluate", states, folder / "states.csv.gz", "--json").stdout)
    assert scores["error_rate"] == bb.metrics.error_rate(probabilities, codes)
    error = bb.metrics.expected_calibration_error(probabilities, codes)
    assert scores["expected_calibration_error"] == pytest.approx(error)
    chosen = np.log(probabilities[np.arange(len(codes)), codes])
    assert scores["log_likelihood"] == pytest.approx(chosen.mean(), abs=1e-5)
    assert "error rate" in done("evaluate", states, folder / "states.csv.gz").stdout


def test_a_single_row_has_no_standard_error(folder, states, tmp_path):
    write_table(read_table(folder / "states.csv.gz").head(1), tmp_path / "one.csv")
    scores = json.loads(done("evaluate", states, tmp_path / "one.csv", "--json").stdout)
    assert scores["log_likelihood_standard_error"] is None


def test_inspect_tells_what_the_file_holds(prices, states):
    facts = json.loads(done("inspect", prices, "--json").stdout)
    posterior = bb.BBAlphaRegressor.load(prices).posterior_
    assert facts["class"] == "BBAlphaRegressor"
    assert facts["layers"] == [5, 1]
    assert (facts["alpha"], facts["likelihood"], facts["rows"]) == (0.5, "gaussian", 40)
    assert facts["energy"] == pytest.approx(float(posterior.energy))
    assert (facts["epochs"], facts["stopped"], facts["seed"]) == (3, "finished", 0)
    assert facts["noise"]["standard_deviation"] > 0
    assert facts["bytes"] == prices.stat().st_size
    assert (facts["task"], facts["target"], facts["dropped"]) == ("regression", "price", ["id"])
    kinds = {column["name"]: column["kind"] for column in facts["columns"]}
    assert kinds == {"size": "number", "color": "text", "built": "date"}
    said = done("inspect", states).stdout
    assert "state, one of 2 classes: 'kept' and 'sold'" in said
    assert "text: 'blue', 'red' and missing" in said
    assert "softmax" in said


def test_inspect_reads_a_model_that_was_saved_from_python(prices, tmp_path):
    bb.BBAlphaRegressor.load(prices).save(tmp_path / "python.safetensors")
    assert "saved from Python" in done("inspect", tmp_path / "python.safetensors").stdout
    facts = json.loads(done("inspect", tmp_path / "python.safetensors", "--json").stdout)
    assert facts["columns"] is None


def test_the_picture_is_there(folder):
    data = (folder / "prices.png").read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    assert len(data) > 20_000


def test_a_model_is_replaced_and_the_same_seed_gives_the_same_one(folder, tmp_path):
    model = written(tmp_path, "something else", "m.safetensors")
    options = ["--target", "price", "--drop", "id", "--impute", "median", *TINY]
    done("fit", folder / "prices.csv", *options, "--output", model, "--quiet")
    first = done("predict", model, folder / "prices.csv").stdout
    assert first == done("predict", folder / "prices.safetensors", folder / "prices.csv").stdout
    done("fit", folder / "prices.csv", *options, "--seed", "1", "--output", model, "--quiet")
    assert first != done("predict", model, folder / "prices.csv").stdout


def test_quiet_prints_nothing(folder, prices, tmp_path):
    options = ["--target", "price", "--drop", "id", "--impute", "median", *TINY, "--quiet"]
    output = ["--output", tmp_path / "m.safetensors"]
    assert done("fit", folder / "prices.csv", *options, *output).output == ""
    output = ["--output", tmp_path / "p.csv"]
    assert done("predict", prices, folder / "prices.csv", *output, "--quiet").output == ""


def test_unseen_texts_are_refused_or_ignored(folder, prices, tmp_path):
    text = (folder / "prices.csv").read_text().replace("red", "green")
    table = written(tmp_path, text)
    message = refused(tmp_path, "predict", prices, table, "-o", tmp_path / "p.csv")
    assert re.search(r"column 'color' .*'blue' and 'red'; got 'green' in row \d+", message)
    assert "--unknown ignore" in message
    assert refused(tmp_path, "evaluate", prices, table) == message
    done("predict", prices, table, "--unknown", "ignore")
    done("evaluate", prices, table, "--unknown", "ignore")


def test_a_device_takes_predictions_and_stays_a_device(folder, prices):
    done("predict", prices, folder / "prices.csv", "--output", "/dev/null")
    assert Path("/dev/null").is_char_device()


def test_an_interrupted_fit_writes_what_it_has_reached(folder, tmp_path, monkeypatch):
    def interrupt(watch, state, energies):
        raise KeyboardInterrupt

    monkeypatch.setattr("bbalpha.engine.loop.Watch.look", interrupt)
    model = tmp_path / "m.safetensors"
    options = ["--target", "price", "--drop", "id", "--impute", "median", *TINY]
    result = run("fit", folder / "prices.csv", *options, "--output", model)
    assert result.exit_code == 130
    assert "interrupted: the model is what was reached" in result.stdout
    assert "energy          not computed" in result.stdout
    facts = json.loads(done("inspect", model, "--json").stdout)
    assert (facts["stopped"], facts["energy"]) == ("interrupted", None)
    done("predict", model, folder / "prices.csv")


def test_a_fit_that_is_interrupted_before_its_first_step_writes_nothing(
    folder, tmp_path, monkeypatch
):
    def interrupt(self, X, y):
        raise KeyboardInterrupt

    monkeypatch.setattr(bb.BBAlphaRegressor, "fit", interrupt)
    options = ["--target", "price", "--drop", "id", "--impute", "median"]
    output = ["--output", tmp_path / "m.safetensors"]
    result = run("fit", folder / "prices.csv", *options, *output)
    assert result.exit_code == 130
    assert result.stderr == "Interrupted before the first step: no model was written.\n"
    assert list(tmp_path.iterdir()) == []


# Refusals


GOOD = "x,y\n1,2\n2,3\n3,5\n4,4\n"


@pytest.mark.parametrize(
    ("table", "options", "message"),
    [
        (GOOD, ["--target", "Yy"], "the target must be a column .* 'Yy' .*nearest is 'y'"),
        (GOOD, ["--target", "y", "--drop", "xs"], "--drop must be .* 'xs' .*nearest is 'x'"),
        (GOOD, ["--target", "y", "--drop", "y"], "--drop must not name the target; got 'y'"),
        (GOOD, ["--target", "y", "--drop", "x"], "a column besides the target; got none"),
        (GOOD, ["--target", "y", "--text", "z"], "--text must be a column of the table; got 'z'"),
        ("x,y\n1,a\n2,a\n", ["--target", "y"], "different values; got 'a' in every row"),
        ("x,y\n1,1\n2,2\nhm,3\n", ["--target", "y"], "column 'x' .*; got 'hm' in row 3"),
        ("x,y\n1,1\n,2\n3,3\n", ["--target", "y"], "missing cells: 1 in 'x' .*--impute median"),
        ("x,y\n1,1\n2,\n3,3\n", ["--target", "y"], "target 'y' must be known .* in row 2"),
        ("", ["--target", "y"], "must be a table; got an empty file"),
        ("x,y\n", ["--target", "y"], "must have rows below its header; got none"),
        (b"x,y\n1,\xe9\n", ["--target", "y"], "must be UTF-8 text; got byte 0xe9 in line 2"),
        (GOOD, ["--target", "y", "--alpha", "5"], r"alpha must not exceed .*alpha=5.0 with 4 data"),
        (GOOD, ["--target", "y", "--alpha", "nan"], "--alpha must be a finite number; got"),
        (GOOD, ["--target", "y", "--alpha", "a"], "Invalid value for '--alpha': it must be a"),
        (GOOD, ["--target", "y", "--epochs", "0"], "Invalid value for '--epochs': it must be gr"),
        (GOOD, ["--target", "y", "--samples", "0"], "Invalid value for '--samples': it must be"),
        (GOOD, ["--target", "y", "--batch-size", "0"], "Invalid value for '--batch-size': it mus"),
        (GOOD, ["--target", "y", "--seed", "-1"], "Invalid value for '--seed': it must be"),
        (GOOD, ["--target", "y", "--hidden", "abc"], "--hidden must be whole .* --hidden 'abc'"),
        (GOOD, ["--target", "y", "--hidden", "5,0"], "--hidden must be whole .* --hidden '5,0'"),
        (GOOD, ["--target", "y", "--hidden", ""], "--hidden must be whole .* --hidden ''"),
        (GOOD, ["--target", "y", "--learning-rate", "0"], "--learning-rate must be positive"),
        (GOOD, ["--target", "y", "--likelihood", "probit"], "--likelihood must be one of gaussi"),
        (GOOD, ["--target", "y", "--likelihood", "x"], "Invalid value for '--likelihood': 'x' is"),
        (GOOD, ["--target", "y", "--task", "rank"], "'--task': 'rank' is not one of 'regression'"),
        (GOOD, ["--target", "y", "--impute", "mean"], "'--impute': 'mean' is not .*'median'"),
        (
            GOOD,
            ["--target", "y", "--plot", "p.xyz"],
            "--plot must end in one of .png, .pdf, .svg; got p.xyz",
        ),
        (
            GOOD.replace("5", "5.5"),
            ["--target", "y", "--likelihood", "poisson"],
            r"the target 'y' must hold counts for --likelihood poisson; got 5\.5\.",
        ),
        (
            GOOD.replace(",", ":"),
            ["--target", "y"],
            "only one is 'x:y'; cells .* by comma, semicolon",
        ),
        (GOOD, [], r"Missing option '--target' \(bbalpha fit --help explains the options\)\."),
        (GOOD, ["--target"], "Option '--target' requires an argument"),
        (GOOD, ["--target", "y", "--epoch", "3"], "No such option: --epoch .*--epochs"),
    ],
)
def test_fit_refuses_in_one_sentence(tmp_path, monkeypatch, table, options, message):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, table)
    assert re.search(message, refused(tmp_path, "fit", "table.csv", *options))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["-o", "table.csv"], "--output must not be another file of the command; got table.csv"),
        (["-o", "./link.csv"], "--output must not be another file of the command; got link.csv"),
        (["-o", "hard.csv"], "--output must not be another file of the command; got hard.csv"),
        (["-o", "no/m.safetensors"], "--output must be a file that can be written; got no/m.safe"),
        (["-o", "x" * 300], "--output must be a file that can be written; got x.*name too long"),
        (["-o", "."], r"--output must be a file; got the folder \."),
        (["-o", "/dev/null"], "--output must be a file; got the device /dev/null"),
        (["--plot", "no/p.png"], "--plot must be a file that can be written; got no/p.png"),
        (["--plot", "table.csv"], "--plot must not be another file of the command"),
        (["-o", "p.png", "--plot", "p.png"], "--plot must not be another file of the command"),
    ],
)
def test_outputs_are_checked_before_the_table_is_read(tmp_path, monkeypatch, options, message):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, b"\xff not even a table")
    (tmp_path / "link.csv").symlink_to("table.csv")
    (tmp_path / "hard.csv").hardlink_to("table.csv")
    assert re.search(message, refused(tmp_path, "fit", "table.csv", "--target", "y", *options))


def test_missing_files_are_named(tmp_path, prices):
    nowhere, table = tmp_path / "nowhere", written(tmp_path, GOOD)
    assert "nowhere must be a file; got nothing" in refused(
        tmp_path, "fit", nowhere, "--target", "y", "-o", tmp_path / "m.safetensors"
    )
    commands = ["predict", nowhere, table], ["evaluate", nowhere, table], ["inspect", nowhere]
    for command in commands:
        assert "nowhere must be a model file; got nothing" in refused(tmp_path, *command)
    for folder in (".", "/"):
        assert f"{folder} must be a file; got a folder" in refused(
            tmp_path, "fit", folder, "--target", "y"
        )
    assert "must be a model file; got a folder" in refused(tmp_path, "inspect", tmp_path)
    for command in ("predict", "evaluate"):
        assert "nowhere must be a file; got nothing" in refused(tmp_path, command, prices, nowhere)


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("size,color", "must have every column .* got none named 'built'"),
        ("sizes,color,built", r"got none named 'size' \(nearest: 'sizes'\)"),
        ("size,color,built,price,garden", "must have no columns .* got 'garden'"),
    ],
)
def test_columns_must_be_those_of_the_training_table(tmp_path, prices, header, message):
    table = written(tmp_path, f"{header}\n{','.join('1' for _ in header.split(','))}\n")
    assert re.search(message, refused(tmp_path, "predict", prices, table))


@pytest.mark.parametrize("quantiles", ["0,1", "0.5,0.5", "abc", "", "nan", "1.5"])
def test_quantiles_must_be_different_levels(folder, prices, quantiles):
    options = ["--quantiles", quantiles]
    message = refused(folder, "predict", prices, folder / "prices.csv", *options)
    assert message == (
        "--quantiles must be different numbers between 0 and 1, separated by commas, or none; "
        f"got --quantiles {quantiles!r}."
    )


def test_classes_have_no_quantiles(folder, states):
    options = ["--quantiles", "0.5"]
    message = refused(folder, "predict", states, folder / "states.csv.gz", *options)
    assert message.startswith("--quantiles must be left out for classes")


def test_predictions_are_not_written_over_their_sources(folder, prices):
    table = folder / "prices.csv"
    for path in (table, prices):
        message = refused(folder, "predict", prices, table, "--output", path)
        assert message.startswith("--output must not be another file of the command")
    message = refused(folder, "predict", prices, table, "--output", folder / "p.xlsx")
    assert "must be CSV or Parquet" in message


def test_a_target_is_needed_to_evaluate(folder, prices, tmp_path):
    frame = read_table(folder / "prices.csv").drop(columns="price")
    write_table(frame, tmp_path / "new.csv")
    message = refused(tmp_path, "evaluate", prices, tmp_path / "new.csv")
    assert message.startswith("the target must be a column of the table; got 'price'")


def test_a_damaged_model_is_refused(folder, prices, tmp_path):
    data = prices.read_bytes()
    bad = {
        "cut": (data[: len(data) // 2], "MODEL must be a complete safetensors file"),
        "flipped": (data[:-1] + bytes([data[-1] ^ 1]), "does not match its checksum"),
        "text": (b"hello", "MODEL must be a complete safetensors file"),
    }
    for name, (content, message) in bad.items():
        path = written(tmp_path, content, name)
        for command in (["inspect", path], ["predict", path, folder / "prices.csv"]):
            assert message in refused(tmp_path, *command)


def test_a_model_of_another_version_is_refused(folder, prices, tmp_path, monkeypatch):
    path = tmp_path / "m.safetensors"
    estimator, table = estimator_file.read(prices, CLASSES)
    with monkeypatch.context() as patch:
        patch.setattr(model_file, "FORMAT_VERSION", 1)
        estimator_file.write(path, estimator, table)
    message = refused(tmp_path, "predict", path, folder / "prices.csv")
    version = model_file.FORMAT_VERSION
    assert f"MODEL must be a bbalpha model of version {version}; got version 1" in message


def test_a_model_from_python_is_refused(folder, prices, tmp_path):
    bb.BBAlphaRegressor.load(prices).save(tmp_path / "m.safetensors")
    message = refused(tmp_path, "predict", tmp_path / "m.safetensors", folder / "prices.csv")
    assert "got one that was saved from Python" in message


def change(**changes):
    return lambda table: table | changes


def without_a_column(table):
    return table | {"encoder": {"columns": table["encoder"]["columns"][1:]}}


@pytest.mark.parametrize(
    ("forge", "message"),
    [
        (lambda table: {"encoder": {}}, "the table is not described by an encoder"),
        (change(encoder=[]), r"the encoder must be an object; got \[\]"),
        (without_a_column, "5 features of the estimator stand against 4"),
        (change(dropped="id"), "the dropped columns are not a list of names"),
        (change(dropped=[1]), "the dropped columns are not a list of names"),
        (change(dropped=["size"]), "the target or a dropped column is among the inputs"),
        (
            change(target={"name": "size", "task": "regression", "classes": []}),
            "the target or a dropped column is among the inputs",
        ),
        (
            change(target={"name": "y", "task": "classification", "classes": ["a", "b"]}),
            "a BBAlphaRegressor has a classification as its target",
        ),
    ],
)
def test_a_forged_table_is_refused(folder, prices, tmp_path, forge, message):
    estimator, table = estimator_file.read(prices, CLASSES)
    path = tmp_path / "m.safetensors"
    estimator_file.write(path, estimator, forge(table))
    told = refused(tmp_path, "predict", path, folder / "prices.csv")
    assert re.search(f"m.safetensors must be an intact model; got one in which {message}", told)


def test_forged_classes_are_refused(folder, states, tmp_path):
    estimator, table = estimator_file.read(states, CLASSES)
    path = tmp_path / "m.safetensors"
    target = table["target"] | {"classes": ["kept", "lost"]}
    estimator_file.write(path, estimator, table | {"target": target})
    message = refused(tmp_path, "predict", path, folder / "states.csv.gz")
    assert "the classes of the estimator are not those of its target" in message


def test_an_energy_that_is_not_finite_is_told(folder, prices, tmp_path, monkeypatch):
    posterior = bb.BBAlphaRegressor.load(prices).posterior_

    def fail(self, X, y):
        raise bb.NonFiniteEnergyError(7, posterior)

    monkeypatch.setattr(bb.BBAlphaRegressor, "fit", fail)
    options = ["--target", "price", "--drop", "id", "--impute", "median"]
    output = ["--output", tmp_path / "m.safetensors"]
    message = refused(tmp_path, "fit", folder / "prices.csv", *options, *output)
    assert message.startswith("the energy must stay finite; got a value that is not at step 7")


def test_a_defect_is_not_taken_for_a_mistake_of_the_user(folder, tmp_path, monkeypatch):
    def fail(self, X, y):
        raise ValueError("a defect")

    monkeypatch.setattr(bb.BBAlphaRegressor, "fit", fail)
    options = ["--target", "price", "--drop", "id", "--impute", "median"]
    with pytest.raises(ValueError, match="a defect"):
        run("fit", folder / "prices.csv", *options, "--output", tmp_path / "m.safetensors")


# Data sets


def test_datasets_lists_the_catalog():
    header, *lines = done("datasets").stdout.splitlines()
    assert header.split() == ["name", "task", "rows", "features", "license", "source"]
    assert [line.split()[0] for line in lines] == list(bb.datasets.CATALOG)


def test_a_data_set_is_written_as_a_table(tmp_path, monkeypatch):
    entry = bb.datasets.CATALOG["yacht"]
    generator = np.random.default_rng(0)
    columns = [*entry.feature_names, entry.target_name]
    values = generator.normal(size=(entry.num_data, len(columns)))
    (tmp_path / "yacht").mkdir()
    frame = pandas.DataFrame(values, columns=columns)
    frame.to_csv(tmp_path / "yacht" / "yacht.csv.gz", index=False)
    monkeypatch.setenv("BBALPHA_DATA", str(tmp_path))
    result = done("datasets", "fetch", "yacht", "--csv", tmp_path / "yacht.csv")
    assert f"bbalpha fit {tmp_path / 'yacht.csv'} --target {entry.target_name}" in result.stderr
    pandas.testing.assert_frame_equal(pandas.read_csv(tmp_path / "yacht.csv"), frame)
    assert done("datasets", "fetch", "yacht", "--quiet").output == ""


def test_a_data_set_that_is_not_there_is_told(tmp_path, monkeypatch):
    monkeypatch.setenv("BBALPHA_DATA", str(tmp_path))
    assert "Is it 'yacht'?" in refused(tmp_path, "datasets", "fetch", "yachts")
    options = ["--quiet", "--csv", tmp_path / "yacht.csv"]
    assert "yacht" in refused(tmp_path, "datasets", "fetch", "yacht", *options)


# The program


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_every_command_has_help(command):
    result = done(*command.split(), "--help")
    assert result.stderr == ""
    assert f"Usage: bbalpha {command}".strip() in result.stdout
    assert f"bbalpha {command}".strip() in result.stdout.partition("Options:")[0].split("\n", 1)[1]
    assert result.stdout == done(*command.split(), "-h").stdout


def test_no_arguments_give_the_help():
    assert done().stdout == done("--help").stdout


def test_an_unknown_command_is_told():
    assert run("fitt").exit_code == 2
    assert "No such command 'fitt'. Did you mean 'fit'?" in run("fitt").stderr


@pytest.mark.parametrize("command", [[COMMAND], [sys.executable, "-m", "bbalpha"]])
def test_the_version_is_that_of_the_package(command):
    result = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"bbalpha \d+\.\d+\.\d+\n", result.stdout)


def modules_after(*args):
    """The top-level modules that a fresh interpreter has loaded after a command."""
    code = f"""
import contextlib, io, sys
from bbalpha.cli import app
with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
    app({list(map(str, args))!r})
print(*sys.modules)
"""
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return {module.partition(".")[0] for module in loaded}


@pytest.mark.parametrize("args", [["--help"], ["fit", "--help"], ["datasets"], ["inspect", "no"]])
def test_what_needs_no_data_loads_nothing_heavy(args):
    assert not HEAVY & modules_after(*args)


def test_a_missing_table_is_told_before_jax_is_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "jax" not in modules_after("fit", "no.csv", "--target", "y")


def test_the_program_fits_and_refuses(folder, tmp_path):
    shutil.copy(folder / "prices.csv", tmp_path)
    options = ["--target", "price", "--drop", "id", "--impute", "median", *TINY]
    process = started("fit", "prices.csv", *options, cwd=tmp_path)
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert "prices.safetensors" in out
    done("predict", tmp_path / "prices.safetensors", tmp_path / "prices.csv")
    process = started("predict", "prices.csv", "no.csv", cwd=tmp_path)
    out, err = process.communicate()
    assert (process.returncode, out) == (2, "")
    assert err == "Error: no.csv must be a file; got nothing of that name.\n"


@pytest.mark.parametrize("command", ["datasets", "--help"])
def test_a_closed_pipe_gives_no_traceback(command):
    with started(command) as process:
        process.stdout.close()
        assert process.stderr.read() == ""


def test_an_encoding_without_greek_letters_is_no_obstacle():
    process = started("--help", env=os.environ | {"PYTHONIOENCODING": "latin-1"})
    out, err = process.communicate()
    assert (process.returncode, err) == (0, "")
    assert r"\u03b1-divergence" in out


def test_a_terminal_gets_a_table_with_lines():
    ours, theirs = pty.openpty()
    with started("datasets", stdout=theirs, env=os.environ | {"TERM": "xterm"}) as process:
        os.close(theirs)
        shown = b""
        while piece := _read(ours):
            shown += piece
        os.close(ours)
    assert process.returncode == 0
    assert "│" in shown.decode()
    assert "…" not in shown.decode()


def _read(terminal):
    try:
        return os.read(terminal, 4096)
    except OSError:  # how Linux says that the other end is closed
        return b""
