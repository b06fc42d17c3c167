"""Facts about `bbalpha predict`: predictions of the estimator, in files of every kind."""

import inspect
import io
import json
import re
from pathlib import Path

import numpy as np
import pandas
import pytest

import bbalpha as bb
from bbalpha.cli.options import quantile_levels
from bbalpha.cli.predict import DEFAULT_QUANTILES
from bbalpha.cli.saved import CLASSES
from bbalpha.interfaces import estimator_file
from bbalpha.interfaces.finite import NonFinitePredictionError
from bbalpha.tables import read_table, write_table


def test_predictions_of_numbers_are_those_of_the_estimator_in_python(folder, prices, done, encoded):
    inputs, targets, _ = encoded(folder / "prices.csv", "price", ["id"])
    model = bb.BBAlphaRegressor(hidden_layer_sizes=(), max_epochs=3, random_state=0)
    mean, std = model.fit(inputs, targets).predict(inputs, return_std=True)
    done("predict", prices, folder / "prices.csv", "--output", folder / "p.csv")
    found = pandas.read_csv(folder / "p.csv")
    assert list(found) == ["mean", "std", "q0.05", "q0.5", "q0.95"]
    np.testing.assert_allclose(found["mean"], mean)
    np.testing.assert_allclose(found["std"], std)
    np.testing.assert_allclose(found.iloc[:, 2:], model.predict_quantiles(inputs))


def test_predictions_of_classes_are_those_of_the_estimator_in_python(folder, states, done, encoded):
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


def test_the_default_quantiles_are_those_of_the_estimator():
    default = inspect.signature(bb.BBAlphaRegressor.predict_quantiles).parameters["quantiles"]
    assert quantile_levels(DEFAULT_QUANTILES) == default.default


@pytest.mark.parametrize("name", ["new.parquet", "new.csv.gz", "new.tsv", "new.csv.zst"])
def test_tables_of_every_kind_give_the_same_predictions(folder, prices, tmp_path, done, name):
    frame = read_table(folder / "prices.csv").drop_columns(["price", "id"])
    write_table(frame, tmp_path / name)
    result = done("predict", prices, tmp_path / name, "-o", tmp_path / f"out.{name}")
    assert result.stdout == ""
    assert result.stderr == f"Predictions for 40 rows are in {tmp_path / f'out.{name}'}.\n"
    expected = done("predict", prices, folder / "prices.csv").stdout
    found = read_table(tmp_path / f"out.{name}").to_pandas().astype(float)
    pandas.testing.assert_frame_equal(found, pandas.read_csv(io.StringIO(expected)))


def test_predictions_go_to_standard_output_alone(folder, prices, done):
    command = ["predict", prices, folder / "prices.csv", "--quantiles"]
    result = done(*command, "0.5")
    assert result.stderr == ""
    assert result.stdout.startswith("mean,std,q0.5\n")
    assert result.stdout.count("\n") == 41
    assert result.stdout == done(*command, "0.5", "--output", "-").stdout
    assert done(*command, "none").stdout.startswith("mean,std\n")


def test_quiet_prints_nothing(folder, prices, tmp_path, done):
    options = ["--output", tmp_path / "p.csv", "--quiet"]
    assert done("predict", prices, folder / "prices.csv", *options).output == ""


def test_unseen_texts_are_counted_or_refused(folder, prices, tmp_path, done, refused, written):
    table = written(tmp_path, (folder / "prices.csv").read_text().replace("red", "green"))
    note = done("predict", prices, table).stderr
    assert re.fullmatch(
        r"Note: column 'color': \d+ of 40 texts were not in the training table, such as 'green'; "
        r"they are counted as none of the known texts\.\n",
        note,
    )
    assert done("evaluate", prices, table).stderr == note
    assert done("predict", prices, table, "--output", tmp_path / "p.csv", "-q").stderr == ""
    refuse = ("--unknown", "error")
    message = refused(tmp_path, "predict", prices, table, "-o", tmp_path / "q.csv", *refuse)
    assert re.search(r"column 'color' has 'green' in row \d+, .* only 'blue' and 'red'", message)
    assert "--unknown other" in message
    assert refused(tmp_path, "evaluate", prices, table, *refuse) == message
    message = refused(tmp_path, "predict", prices, table, "--unknown", "drop")
    assert message == "--unknown must be other or error; got 'drop'."


def test_the_column_that_names_the_rows_comes_first(folder, prices, tmp_path, done, refused, quick):
    def predicted(model, *options):
        return done("predict", model, folder / "prices.csv", *options).stdout.splitlines()

    assert predicted(prices, "--id", "id")[0].startswith("id,mean,std")
    assert predicted(prices, "--id", "id")[1].startswith("house 0,")
    assert predicted(prices)[0].startswith("mean,std")
    model = tmp_path / "m.safetensors"
    options = ["--target", "price", "--id", "id", *quick[2:], "-o", model, "-q"]
    done("fit", folder / "prices.csv", *options)
    assert predicted(model) == predicted(prices, "--id", "id")
    frame = read_table(folder / "prices.csv").drop_columns(["id"])
    write_table(frame, tmp_path / "new.csv")
    assert done("predict", model, tmp_path / "new.csv").stdout.startswith("mean,std")
    message = refused(tmp_path, "predict", model, tmp_path / "new.csv", "--id", "siz")
    assert message == "--id 'siz' is not a column of the table (did you mean 'size'?)."


def test_a_device_takes_predictions_and_stays_a_device(folder, prices, done):
    done("predict", prices, folder / "prices.csv", "--output", "/dev/null")
    assert Path("/dev/null").is_char_device()


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("size,color", "the table lacks 'built', which the training table had"),
        ("sizes,color,built", r"the table lacks 'size' \(nearest: 'sizes'\), which"),
        ("size,color,built,price,garden", "must have no columns .* lacked; got 'garden'"),
    ],
)
def test_columns_must_be_those_of_the_training_table(
    tmp_path, prices, refused, written, header, message
):
    table = written(tmp_path, f"{header}\n{','.join('1' for _ in header.split(','))}\n")
    assert re.search(message, refused(tmp_path, "predict", prices, table))


@pytest.mark.parametrize("quantiles", ["0,1", "0.5,0.5", "abc", "", "nan", "1.5"])
def test_quantiles_must_be_different_levels(folder, prices, refused, quantiles):
    options = ["--quantiles", quantiles]
    message = refused(folder, "predict", prices, folder / "prices.csv", *options)
    assert message == (
        "--quantiles must be different numbers between 0 and 1, separated by commas, or none; "
        f"got {quantiles!r}."
    )


def test_quantiles_must_not_vanish_in_32_bits(folder, prices, refused):
    options = ["--quantiles", "0.5,1e-320"]
    message = refused(folder, "predict", prices, folder / "prices.csv", *options)
    assert message == "--quantiles must be at least 1e-37; got '0.5,1e-320'."


def test_classes_have_no_quantiles(folder, states, refused):
    options = ["--quantiles", "0.5"]
    message = refused(folder, "predict", states, folder / "states.csv.gz", *options)
    assert message == "--quantiles must be left out, because classes have none; got '0.5'."


def test_predictions_are_not_written_over_their_sources(folder, prices, refused):
    table = folder / "prices.csv"
    for path in (table, prices):
        message = refused(folder, "predict", prices, table, "--output", path)
        assert message.startswith("--output must not be another file of the command")
    message = refused(folder, "predict", prices, table, "--output", folder / "p.xlsx")
    assert "must be CSV or Parquet" in message


def test_a_table_is_predicted_in_one_pass_over_the_draws(folder, prices, states, done, passes):
    done("predict", prices, folder / "prices.csv")
    done("predict", states, folder / "states.csv.gz")
    assert passes == [40, 40]


def test_predict_prints_one_json_object(folder, prices, done, tmp_path):
    command = ["predict", prices, folder / "prices.csv", "--quantiles", "none", "--json"]
    facts = json.loads(done(*command).stdout)
    assert (facts["rows"], facts["output"], facts["converged"]) == (40, None, False)
    plain = pandas.read_csv(io.StringIO(done(*command[:-1]).stdout))
    found = pandas.DataFrame(facts["predictions"])
    pandas.testing.assert_frame_equal(found[["mean", "std"]], plain[["mean", "std"]])
    output = tmp_path / "p.csv"
    result = done(*command, "--output", output)
    assert result.stderr == ""
    facts = json.loads(result.stdout)
    assert (facts["predictions"], facts["output"]) == (None, str(output))
    assert output.exists()


FORMULAS = ["+1+cmd", "=cmd|' /C calc'!A0"]


@pytest.fixture(scope="module")
def formulas(tmp_path_factory, states):
    """A model whose labels a spreadsheet would run, and a table with such names of rows."""
    folder = tmp_path_factory.mktemp("formulas")
    estimator, table = estimator_file.read(states, CLASSES)
    estimator.classes_ = np.array(FORMULAS)
    table["target"]["classes"] = FORMULAS
    estimator_file.write(folder / "m.safetensors", estimator, table)
    frame = pandas.DataFrame({"size": [50, 60], "color": "red", "built": "2000-01-05"})
    frame.insert(0, "@id", ["-2", "two"])
    frame.to_csv(folder / "new.csv", index=False)
    return folder


def test_labels_are_copied_as_they_are_or_safe_for_spreadsheets(formulas, done):
    command = ("predict", formulas / "m.safetensors", formulas / "new.csv", "--id", "@id")
    plain = pandas.read_csv(io.StringIO(done(*command).stdout), dtype=str)
    safe = pandas.read_csv(io.StringIO(done(*command, "--spreadsheet").stdout), dtype=str)
    assert list(plain) == ["@id", "prediction", *(f"p_{label}" for label in FORMULAS)]
    assert list(safe) == ["'@id", *list(plain)[1:]]
    assert set(plain["prediction"]) <= set(FORMULAS)
    assert safe["prediction"].tolist() == [f"'{label}" for label in plain["prediction"]]
    assert safe["'@id"].tolist() == ["'-2", "two"]
    assert safe.iloc[:, 2:].equals(plain.iloc[:, 2:])


def test_a_cell_beyond_float32_is_clipped_like_others(prices, tmp_path, done, written):
    new = "size,color,built\n1e39,red,2000-01-05\n-1e300,red,2000-01-05\n"
    path = written(tmp_path, new)
    found = done("predict", prices, path, "--json").stdout
    values = [list(row.values()) for row in json.loads(found)["predictions"]]
    assert np.isfinite(np.array(values, float)).all()
    assert done("predict", prices, path).stderr == (
        "Note: 2 rows have inputs far outside the training range, which are replaced by the "
        "nearest limit: 'size'.\n"
    )
    assert done("predict", prices, path, "--quiet").stderr == ""


def test_predictions_that_are_not_finite_are_refused(prices, folder, refused, monkeypatch):
    def overflowing(*args, **settings):
        raise NonFinitePredictionError(np.array([1, 4]), 40)

    monkeypatch.setattr(bb.BBAlphaRegressor, "_described", overflowing)
    message = refused(folder, "predict", prices, folder / "prices.csv")
    assert message == "2 rows of 40 have no finite prediction or score: rows 2 and 5."
