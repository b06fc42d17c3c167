"""Every example runs as a user runs it, without a warning, and prints or draws what it promises."""

import contextlib
import http.client
import json
import os
import re
import runpy
import socket
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pandas
import pytest
from PIL import Image
from problems.invented import invented

import bbalpha as bb
from bbalpha.predictor import Predictor

ROOT = Path(__file__).parents[1]
NUMBER = r"(-?\d+\.\d+)"

# What the demo says after two epochs.
TOO_FEW_EPOCHS = (
    "Warning: fit did not converge: 2 epochs with",
    "Warning: a linear model predicts rows that are left out better",
)
# For an example that takes a few steps with many programs: compiling takes half as long.
CHEAP_COMPILES = {
    "JAX_DISABLE_MOST_OPTIMIZATIONS": "1",
    "XLA_FLAGS": "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1",
}


def test_probit_finds_the_weights_that_made_the_labels(tmp_path):
    printed = run("probit.py", cwd=tmp_path)
    weights = re.findall(rf"weight \d: +{NUMBER} ± {NUMBER}", printed)
    mean, deviation = np.array(weights, float).T
    assert np.all(np.abs(mean - [1.0, -1.0, 0.5]) < 3 * deviation)
    assert np.all((deviation > 0.05) & (deviation < 0.3))  # 200 labels: about 1.5/√200
    assert re.search(rf"energy: {NUMBER}", printed)


@pytest.mark.parametrize(
    ("example", "chance", "num_classes"),
    [("flax_network.py", 0.37, 2), ("equinox_network.py", 0.9, 10)],
)
def test_network_beats_chance_by_far(example, chance, num_classes, tmp_path):
    printed = run(example, cwd=tmp_path)
    (error,) = re.findall(rf"test error: {NUMBER}", printed)
    (log_likelihood,) = re.findall(rf"test log-likelihood: {NUMBER}", printed)
    assert float(error) < chance / 4
    assert -np.log(num_classes) / 2 < float(log_likelihood) < 0


@pytest.mark.slow
def test_minibatched_numpyro_network_predicts_with_calibrated_intervals(tmp_path):
    printed = run("numpyro_network.py", cwd=tmp_path)
    (rmse,) = re.findall(rf"RMSE: {NUMBER}", printed)
    (covered,) = re.findall(rf"cover: {NUMBER}", printed)
    assert float(rmse) < 65  # the spread of the targets is 77
    assert 0.75 < float(covered) <= 1  # of 44 rows


@pytest.mark.slow
def test_hierarchical_numpyro_model_finds_the_slope_that_made_the_data(tmp_path):
    printed = run("numpyro_hierarchical.py", cwd=tmp_path)
    assert "converged: yes" in printed
    ((slope, deviation),) = re.findall(rf"slope: {NUMBER} ± {NUMBER}", printed)
    assert abs(float(slope) - 1.2) < 3 * float(deviation)


@pytest.mark.slow
def test_latent_inputs_of_a_numpyro_network_find_both_branches(tmp_path):
    printed = run("numpyro_latent_inputs.py", cwd=tmp_path)
    ((apart, together),) = re.findall(rf"{NUMBER} between branches, {NUMBER} at a cross", printed)
    assert float(apart) > 0.8  # one Gaussian of the same variance would have 0.6
    assert float(together) < 0.2
    noise, doubt = np.array(re.findall(rf"data {NUMBER}, doubt .* {NUMBER}", printed), float).T
    assert noise[0] > 0.7  # the branches are at ±1
    assert np.all(doubt < 0.1 * noise)


def test_demo_runs_the_commands_prints_a_row_per_alpha_and_draws_its_picture(tmp_path):
    printed = run("demo.py", "--quick", cwd=tmp_path, **CHEAP_COMPILES)
    assert "$ bbalpha fit train.csv --target progression --epochs 2" in printed
    assert re.search(rf"log-likelihood per row +{NUMBER} ± {NUMBER}", printed)
    rows = [re.findall(r"[\d.-]+", line) for line in printed.splitlines() if line.startswith("│")]
    assert [row[0] for row in rows] == ["0", "0.5", "1"]
    for _, log_likelihood, _, rmse, _, crps, _, coverage, _, seconds in np.array(rows, float):
        # A Gaussian with the spread of the targets, 77, scores −5.8, 77 and 43.
        assert -6.5 < log_likelihood < -5
        assert 40 < rmse < 80
        assert 20 < crps < 45
        assert 0.5 < coverage <= 1
        assert seconds >= 0
    path = tmp_path / "demo" / "alpha.png"
    assert str(path) in printed
    with Image.open(path) as picture:
        picture.load()
        assert picture.format == "PNG"
        assert picture.width > 1500
        assert picture.height > 500
        assert len(set(picture.convert("L").tobytes())) > 50  # not a blank page


ROW = {"height": 1.0, "weight": 2.0}
WRONG = [  # a missing column, a text, no rows and a coverage
    {"rows": [{"height": 1.0}]},
    {"rows": [ROW, {**ROW, "height": "tall"}]},
    {"rows": []},
    {"rows": [ROW], "coverage": 2},
]


def test_family_tree_of_the_docs_is_what_its_script_draws():
    script = runpy.run_path(str(ROOT / "examples" / "family_tree.py"))
    assert script["picture"]() == script["PATH"].read_text()


@contextlib.contextmanager
def served(service):
    """A connection to the service, which runs in a thread and listens on the loopback address."""
    uvicorn = pytest.importorskip("uvicorn")
    server = uvicorn.Server(uvicorn.Config(service, log_level="warning", ws="none"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            address = listener.getsockname()
            with contextlib.closing(http.client.HTTPConnection(*address, timeout=60)) as connection:
                yield connection
        finally:
            server.should_exit = True
            thread.join()


def asked(connection, method, path, body=None):
    """The status and the JSON of an answer."""
    headers = {"Content-Type": "application/json"}
    connection.request(method, path, None if body is None else json.dumps(body), headers)
    response = connection.getresponse()
    return response.status, json.load(response)


@pytest.mark.parametrize("num_requests", [100, pytest.param(1000, marks=pytest.mark.slow)])
def test_service_answers_requests_with_the_predictions_of_the_model(num_requests, tmp_path):
    pytest.importorskip("fastapi")
    names = ["height", "weight"]
    settings = {"hidden_layer_sizes": (3,), "num_predictive_samples": 50}
    model = invented(bb.BBAlphaRegressor(**settings), names=names)
    model.export(tmp_path / "model.predictor")
    script = runpy.run_path(str(ROOT / "examples" / "service.py"))
    predictor = Predictor.load(tmp_path / "model.predictor")
    inputs = np.random.RandomState(0).normal(size=(num_requests, 2))
    mean, std = model.predict(pandas.DataFrame(inputs, columns=names), return_std=True)
    with served(script["service_of"](predictor)) as connection:
        found = [
            asked(connection, "POST", "/predict", {"rows": [dict(zip(names, row, strict=True))]})
            for row in inputs.tolist()
        ]
        health = asked(connection, "GET", "/health")
        wrong = [asked(connection, "POST", "/predict", body) for body in WRONG]
    assert {status for status, _ in found} == {200}
    rows = [row for _, (row,) in found]
    assert np.all(np.abs([row["mean"] for row in rows] - mean) < 1e-5 * std)
    assert np.all(np.abs([row["std"] for row in rows] - std) < 1e-5 * std)
    ends = np.array([[row["low"], row["high"]] for row in rows])
    apart = np.abs(ends - predictor.predict_interval(inputs))
    assert np.all(apart < 1e-6 * std[:, None])
    assert health == (200, {"status": "ok", "columns": names, "draws": 50})
    assert [status for status, _ in wrong] == [422] * 4
    assert wrong[0][1] == {"detail": "X must have the column 'weight'; it lacks it."}
    rule = "must hold a number in every row, or None; got 'tall' in row 1"
    assert rule in wrong[1][1]["detail"]


@pytest.mark.slow
def test_ray_server_survives_a_killed_actor_and_finds_the_same_bits(tmp_path):
    pytest.importorskip("ray")
    command = [sys.executable, ROOT / "examples" / "ray_server.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert "killed an actor in round 10" in done.stdout
    assert "the same bits as without Ray: yes" in done.stdout
    weights = re.findall(rf"weight: +{NUMBER} ± {NUMBER}", done.stdout)
    mean, deviation = np.array(weights, float).T
    assert np.all(np.abs(mean - [1.0, -1.0, 0.5]) < 3 * deviation)


def run(example, *arguments, cwd, **environment):
    """What the example prints, provided that it succeeds and says nothing on the error stream."""
    result = subprocess.run(
        [sys.executable, "-W", "error", ROOT / "examples" / example, *arguments],
        cwd=cwd,
        env=os.environ | {"COLUMNS": "120", "PYTHONIOENCODING": "utf-8"} | environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert all(line.startswith(TOO_FEW_EPOCHS) for line in result.stderr.splitlines())
    return result.stdout
