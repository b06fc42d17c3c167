"""Facts about `bbalpha inspect`: what a model file holds, for people and as JSON."""

import dataclasses
import json
import math
import re
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

import bbalpha as bb
from bbalpha.cli.header import _noise
from bbalpha.files import model_file


def test_inspect_tells_what_the_file_holds(prices, states, done):
    facts = json.loads(done("inspect", prices, "--json").stdout)
    posterior = bb.BBAlphaRegressor.load(prices).posterior_
    assert facts["class"] == "BBAlphaRegressor"
    assert facts["layers"] == [8, 2]  # the second output is the noise
    assert (facts["alpha"], facts["likelihood"], facts["rows"]) == (0.5, "heteroscedastic", 40)
    assert facts["energy"] == pytest.approx(float(posterior.energy))
    assert (facts["epochs"], facts["stopped"], facts["seed"]) == (3, "finished", 0)
    assert facts["noise"] == {}  # it depends on the inputs
    assert facts["bytes"] == prices.stat().st_size
    assert (facts["task"], facts["target"], facts["dropped"]) == ("regression", "price", ["id"])
    kinds = {column["name"]: column["kind"] for column in facts["columns"]}
    assert kinds == {"size": "number", "color": "text", "built": "date"}
    said = done("inspect", states).stdout
    assert "state, one of 2 classes: 'kept' and 'sold'" in said
    assert "text: 'blue', 'red' and missing" in said
    assert "softmax" in said


@pytest.mark.parametrize(
    ("learned", "noise"),
    [
        ({"log_variance": 2.0}, {"standard_deviation": 3 * math.e}),
        ({"log_scale": 1.0, "log_degrees_of_freedom": 0.0}, {"scale": 3 * math.e}),
        ({"log_size": 1.0}, {"size": math.e}),
        ({"upper": 1e9}, {}),
    ],
)
def test_noise_is_in_the_units_of_the_target(learned, noise):
    arrays = {f".hyperparams.likelihood.{name}": np.array([x]) for name, x in learned.items()}
    found = _noise(arrays, unit=3.0)
    assert found.pop("degrees_of_freedom", 1.0) == 1
    assert found == pytest.approx(noise)


def test_inspect_reads_a_model_that_was_saved_from_python(prices, tmp_path, done):
    bb.BBAlphaRegressor.load(prices).save(tmp_path / "python.safetensors")
    assert "saved from Python" in done("inspect", tmp_path / "python.safetensors").stdout
    facts = json.loads(done("inspect", tmp_path / "python.safetensors", "--json").stdout)
    assert facts["columns"] is None


def test_inspect_tells_about_a_posterior(prices, tmp_path, done):
    posterior = bb.BBAlphaRegressor.load(prices).posterior_
    posterior.save(tmp_path / "posterior.safetensors")
    facts = json.loads(done("inspect", tmp_path / "posterior.safetensors", "--json").stdout)
    assert (facts["class"], facts["rows"], facts["likelihood"]) == ("Posterior", 40, None)
    assert "network" not in done("inspect", tmp_path / "posterior.safetensors").stdout


@pytest.mark.parametrize(
    "change",
    [
        {"info": []},
        {"params": [["['weights']", 3]]},
        {"table": {"target": {"name": 1, "task": "regression", "classes": []}}},
        {"table": 3},
        {"estimator": {"class": "BBAlphaRegressor", "settings": {}}},
    ],
)
def test_metadata_of_the_wrong_kind_are_refused(prices, tmp_path, refused, change):
    _, metadata = model_file.read(prices)
    tree = bb.BBAlphaRegressor.load(prices).posterior_
    model_file.write(tmp_path / "m.safetensors", tree, metadata | change)
    message = refused(tmp_path, "inspect", tmp_path / "m.safetensors")
    assert message.startswith("m.safetensors is not a valid bbalpha model: its metadata do not")


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"num_data": -5.0}, r"\.num_data is -5, which is not positive and finite"),
        ({"num_data": math.nan}, r"\.num_data is nan, which is not positive and finite"),
        ({"alpha": math.inf}, r"\.alpha is inf, which is not finite"),
    ],
)
def test_impossible_numbers_are_refused(prices, tmp_path, refused, change, problem):
    _, metadata = model_file.read(prices)
    tree = bb.BBAlphaRegressor.load(prices).posterior_
    arrays = {name: jnp.float32(value) for name, value in change.items()}
    path = tmp_path / "m.safetensors"
    model_file.write(path, dataclasses.replace(tree, **arrays), metadata)
    message = refused(tmp_path, "inspect", path)
    assert re.fullmatch(rf"m\.safetensors is not a valid bbalpha model: {problem}\.", message)


def test_texts_of_a_file_are_printable(prices, tmp_path, done):
    _, metadata = model_file.read(prices)
    metadata["info"]["stopped"] = "\x1b[2J\x9b31m\u202efinished"
    path = tmp_path / "m.safetensors"
    model_file.write(path, bb.BBAlphaRegressor.load(prices).posterior_, metadata)
    for options in ((), ("--json",)):
        shown = done("inspect", path, *options).stdout
        assert "finished" in shown
        assert shown.replace("\n", "").isprintable()


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"task": "classification", "classes": ["a", "b"]}, "BBAlphaRegressor has the target of a"),
        ({"classes": ["a", "b"]}, "the classes of the estimator and of its target differ"),
        ({"name": "size"}, "the target or a dropped column is also an input"),
    ],
)
def test_a_table_of_another_model_is_refused(prices, tmp_path, refused, change, problem):
    _, metadata = model_file.read(prices)
    metadata["table"]["target"] |= change
    tree = bb.BBAlphaRegressor.load(prices).posterior_
    model_file.write(tmp_path / "m.safetensors", tree, metadata)
    assert problem in refused(tmp_path, "inspect", tmp_path / "m.safetensors")


def test_inspect_waits_for_no_heavy_library(prices):
    code = f"""
import sys
sys.argv = ["bbalpha", "inspect", {str(prices)!r}]
from bbalpha.__main__ import main
try:
    main()
except SystemExit as end:
    assert not end.code
heavy = {{"jax", "matplotlib", "pandas", "pyarrow", "rich", "scipy", "sklearn"}}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
"""
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
