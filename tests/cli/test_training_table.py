"""Facts about awkward files: each is fitted, described, scored and predicted by the commands."""

import csv
import io
import json

import numpy as np
import pandas
import pytest

from bbalpha.tables import Encoder

NUM_ROWS, NUM_FEATURES = 60, 5  # of every file, so that the programs are compiled once
LINEAR = ("--hidden", "none", "--epochs", "3")


def awkward():
    """A file for each thing that real files do, with options and what the model says of them."""
    rng = np.random.default_rng(0)
    x = rng.normal(10, 2, NUM_ROWS).round(2)
    y = (3 * x + rng.normal(size=NUM_ROWS)).round(2).astype(object)
    days = pandas.date_range("2020-01-05", periods=NUM_ROWS, freq="9D")
    seldom = np.arange(NUM_ROWS) % 9 == 0
    towns = np.where(
        seldom, [f"town {n}" for n in range(NUM_ROWS)], np.where(x > 10, "Ely", "Bath")
    )
    digits = [f"0{1 + n % 9}/0{1 + n % 8}/2020" for n in range(NUM_ROWS)]
    return {
        "missing target": ({"x": x, "y": y}, ["--skip-missing-target"], {}),
        "index": ({"": range(NUM_ROWS), "x": x, "y": y}, [], {"Unnamed: 0": "numbers the rows"}),
        "row names": (
            {"": [f"car {n}" for n in range(NUM_ROWS)], "x": x, "y": y},
            [],
            {"Unnamed: 0": "has a different text in every row"},
        ),
        "days first": ({"d": days.strftime("%d/%m/%Y"), "y": y}, [], {"d": "date with the phase"}),
        "months first": (
            {"d": days.strftime("%m/%d/%Y"), "y": y},
            [],
            {"d": "date with the phase"},
        ),
        "open dates": ({"d": digits, "y": y}, ["--dayfirst"], {"d": "date"}),
        "named months": (
            {"d": days.strftime("%d %b %Y"), "y": y},
            [],
            {"d": "date with the phase"},
        ),
        "times": ({"d": days.strftime("%Y-%m-%d %H:%M+01:00"), "y": y}, [], {"d": "date with"}),
        "dollars": (
            {"x": [f"${value:,.0f}" for value in 1000 * x], "y": [f"${v:,}" for v in y]},
            [],
            {"x": "number in $"},
        ),
        "euros": ({"x": [f"{v:.2f} €".replace(".", ",") for v in x], "y": y}, [], {"x": "in €"}),
        "percent": ({"x": [f"{value:.0f}%" for value in 5 * x], "y": y}, [], {"x": "number in %"}),
        "points": (
            {"x": np.where(seldom, ".", x), "y": y},
            [],
            {"x": "with a feature that says so"},
        ),
        "tokens": (
            {"x": np.where(seldom, "-999", x), "y": y},
            ["--missing", "-999,none"],
            {"x": "with a feature that says so"},
        ),
        "towns": ({"t": towns, "y": y}, [], {"t": "7 rare ones pooled"}),
        "ids": ({"id": [f"A-{n}" for n in range(NUM_ROWS)], "x": x, "y": y}, ["--id", "id"], {}),
        "booleans": ({"b": np.where(x > 10, "yes", "no"), "y": y}, [], {"b": "true or false"}),
        "empty column": ({"x": x, "e": None, "y": y}, [], {"e": "is empty"}),
        "heavy tails": ({"x": np.exp(x), "y": y}, [], {"x": "logarithms"}),
        "three values": ({"x": x, "y": np.arange(NUM_ROWS) % 3}, [], {}),
    }


def filled(columns):
    """The columns, with enough numbers added to make `NUM_FEATURES` features."""
    frame = pandas.DataFrame(columns).rename(columns={"": "Unnamed: 0"})
    inputs = frame.drop(columns=["y", "id"], errors="ignore")
    found = len(Encoder.learn(inputs, missing=["-999"], dayfirst=_dayfirst(inputs)).feature_names)
    rng = np.random.default_rng(1)
    more = {f"z{n}": rng.normal(size=NUM_ROWS).round(3) for n in range(NUM_FEATURES - found)}
    return pandas.DataFrame(more | columns)[[*columns, *more]]


def _dayfirst(inputs):
    return True if "d" in inputs and inputs["d"].str.startswith("01/01").any() else None


AWKWARD = awkward()


@pytest.mark.parametrize("name", AWKWARD)
def test_an_awkward_file_is_fitted_described_scored_and_predicted(tmp_path, done, name):
    columns, options, described = AWKWARD[name]
    frame = filled(columns)
    if name == "missing target":
        frame = pandas.concat([frame, frame.head(3).assign(y=None)], ignore_index=True)
    frame.to_csv(tmp_path / "t.csv", index=False)
    model = tmp_path / "m.safetensors"
    fitted = done("fit", tmp_path / "t.csv", "--target", "y", *options, *LINEAR, "-o", model)
    assert "t.csv: 60 rows" in fitted.stdout
    assert ("3 rows without a target left out" in fitted.stderr) == (name == "missing target")
    facts = json.loads(done("inspect", model, "--json").stdout)
    assert facts["layers"] == [NUM_FEATURES, 2]  # the second output is the noise
    words = {column["name"]: column["words"] for column in facts["columns"]}
    for column, expected in described.items():
        assert expected in words[column]
        if words[column].startswith("ignored"):
            assert f"ignored  '{column}' {expected}\n" in fitted.stdout
    scoring = ("evaluate", model, tmp_path / "t.csv", "--skip-missing-target", "--json")
    assert json.loads(done(*scoring).stdout)["rows"] == NUM_ROWS
    frame.drop(columns="y").head(5).to_csv(tmp_path / "new.csv", index=False)
    printed = done("predict", model, tmp_path / "new.csv").stdout
    predictions = list(csv.DictReader(io.StringIO(printed)))
    assert len(predictions) == 5
    assert all(np.isfinite(float(row["mean"])) for row in predictions)
    if "id" in columns:
        assert [row["id"] for row in predictions] == [f"A-{n}" for n in range(5)]


def test_a_model_of_complete_data_takes_missing_cells_and_new_texts_later(tmp_path, done, written):
    rows = "".join(
        f"{n % 7},{'ab'[n % 2]},{['yes', 'no'][n % 3 == 0]},{n % 13},{n % 5}\n"
        for n in range(NUM_ROWS)
    )
    table = written(tmp_path, "x,t,b,z,y\n" + rows)
    model = tmp_path / "m.safetensors"
    done("fit", table, "--target", "y", *LINEAR, "-o", model)
    new = written(tmp_path, "x,t,b,z\n1,a,yes,1\n,c,,1\n" + "2,b,no,1\n" * 3, "new.csv")
    result = done("predict", model, new)
    assert result.stdout.count("\n") == 6
    assert result.stderr.splitlines() == [
        "Note: column 'x': 1 of 5 cells are missing, filled with the median 3.",
        "Note: column 't': 1 of 5 texts were not in the training table, such as 'c'; they are "
        "counted as none of the known texts.",
        "Note: column 'b': 1 of 5 cells are missing, counted as True.",
    ]
