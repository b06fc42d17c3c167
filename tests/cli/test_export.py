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
