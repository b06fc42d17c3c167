"""Facts about `bbalpha export`: the file predicts what the model predicts."""

import io
import json

import numpy as np
import pandas

from bbalpha.predictor import Predictor


def rows_of(table):
    return table.astype(object).where(table.notna(), None).to_dict("records")


def test_exported_model_predicts_the_rows_of_a_table(prices, folder, tmp_path, done):
    path = tmp_path / "prices.predictor"
    said = done("export", prices, "--output", path).stderr
    assert said == f"{path} holds 1,000 draws in {path.stat().st_size / 1e6:.1f} MB.\n"
    new = folder / "prices.csv"
    printed = done("predict", prices, new, "--quiet").stdout
    expected = pandas.read_csv(io.StringIO(printed))
    predictor = Predictor.load(path)
    mean, std = predictor.predict(rows_of(pandas.read_csv(new)), return_std=True)
    assert np.all(np.abs(mean - expected["mean"]) < 1e-5 * expected["std"])
    assert np.all(np.abs(std - expected["std"]) < 1e-5 * expected["std"])


AWKWARD = [
    {"size": 80.5, "color": " red ", "built": "2000-01-05"},
    {"size": -999, "color": "blue", "built": "2000-01-06"},
    {"size": -999.0, "color": "-999", "built": "2000-01-06"},
    {"size": 120, "color": "\u00a0NA\t", "built": "2000-01-07"},
    {"size": 120, "color": "green", "built": " unknown "},
    {"size": None, "color": None, "built": None},
    {"size": 120.0, "color": "unknown", "built": " 2000-01-08 "},
]


def test_awkward_rows_get_the_same_prediction_from_the_file_and_from_the_command(
    folder, tmp_path, done, quick
):
    path, rows = tmp_path / "model.safetensors", tmp_path / "rows.jsonl"
    options = ("--target", "price", "--missing", "-999", *quick)
    done("fit", folder / "prices.csv", *options, "--output", path)
    rows.write_text("".join(json.dumps(row) + "\n" for row in AWKWARD))
    done("export", path, "--output", tmp_path / "model.predictor")
    expected = pandas.read_csv(io.StringIO(done("predict", path, rows, "--quiet").stdout))
    mean, std = Predictor.load(tmp_path / "model.predictor").predict(AWKWARD, return_std=True)
    assert np.all(np.abs(mean - expected["mean"]) < 1e-5 * expected["std"])
    assert np.all(np.abs(std - expected["std"]) < 1e-5 * expected["std"])


def test_a_small_file_has_few_draws_and_json_says_so(states, tmp_path, done):
    path = tmp_path / "small.predictor"
    facts = json.loads(done("export", states, "-o", path, "--draws", "10", "--json").stdout)
    assert (facts["draws"], facts["bytes"]) == (10, path.stat().st_size)
    predictor = Predictor.load(path)
    assert predictor.num_draws == 10
    assert len(predictor.classes_) >= 2


def test_wrong_files_and_numbers_are_refused(prices, tmp_path, refused, done):
    path = tmp_path / "model.predictor"
    done("export", prices, "-o", path, "--draws", "2", "-q")
    assert refused(tmp_path, "export", path).endswith(
        "is a bbalpha predictor, not a bbalpha model."
    )
    assert "--draws must be a whole number" in refused(tmp_path, "export", prices, "--draws", "0")
    assert "must not be another file" in refused(tmp_path, "export", path, "-o", path)
