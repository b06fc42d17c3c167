"""Facts about `bbalpha inspect`: what a model file holds, for people and as JSON."""

import json

import pytest

import bbalpha as bb


def test_inspect_tells_what_the_file_holds(prices, states, done):
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


def test_inspect_reads_a_model_that_was_saved_from_python(prices, tmp_path, done):
    bb.BBAlphaRegressor.load(prices).save(tmp_path / "python.safetensors")
    assert "saved from Python" in done("inspect", tmp_path / "python.safetensors").stdout
    facts = json.loads(done("inspect", tmp_path / "python.safetensors", "--json").stdout)
    assert facts["columns"] is None
