"""Facts about fits that do not end as planned."""

import json
import signal
import traceback

import jax
import numpy as np
import pytest

import bbalpha as bb
import bbalpha.engine.loop
from bbalpha.files import model_file

NAMES = ("whole", "cut")
LOWERED = "/jax/core/compile/jaxpr_to_mlir_module_duration"


def test_an_interrupted_fit_writes_what_it_has_reached(
    folder, tmp_path, monkeypatch, run, done, quick
):
    def interrupt(watch, state, energies):
        raise KeyboardInterrupt

    monkeypatch.setattr("bbalpha.stopping.Watch.look", interrupt)
    model = tmp_path / "m.safetensors"
    options = ["--target", "price", *quick, "--output", model]
    result = run("fit", folder / "prices.csv", *options)
    assert result.exit_code == 130
    assert "3, interrupted\n" in result.stdout
    assert "energy          not computed" in result.stdout
    said = "Interrupted after 6 steps; the model holds the posterior reached so far.\n"
    verdict, last = result.stderr.splitlines(keepends=True)
    assert verdict.startswith("Warning: a linear model predicts rows that are left out better than")
    assert last == said
    facts = json.loads(done("inspect", model, "--json").stdout)
    assert (facts["stopped"], facts["energy"]) == ("interrupted", None)
    done("predict", model, folder / "prices.csv")


def test_an_interrupted_fit_with_a_checkpoint_goes_on_to_the_same_model(
    folder, tmp_path, monkeypatch, run, done, quick
):
    command = ["fit", folder / "prices.csv", "--target", "price", *quick]
    done(*command, "--output", tmp_path / "whole.safetensors")
    command += ["--output", tmp_path / "cut.safetensors", "--checkpoint", tmp_path / "kept"]

    def interrupt(self, state, energies, stopped):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("bbalpha.engine.loop.CHUNK_SECONDS", 1e-9)  # one step at a time
        patched.setattr("bbalpha.runtime.checkpoints.Keeper.save_if_due", interrupt)
        assert run(*command).exit_code == 130
    done(*command)
    whole, cut = (bb.BBAlphaRegressor.load(tmp_path / f"{name}.safetensors") for name in NAMES)
    assert cut.posterior_.info.energies == whole.posterior_.info.energies
    for leaf, other in zip(
        jax.tree.leaves(cut.posterior_), jax.tree.leaves(whole.posterior_), strict=True
    ):
        np.testing.assert_array_equal(leaf, other)


def test_a_checkpoint_of_another_fit_is_refused(folder, tmp_path, run, done, refused, quick):
    command = ["fit", folder / "prices.csv", "--target", "price", *quick]
    command += ["--output", tmp_path / "m.safetensors", "--checkpoint", tmp_path / "kept"]
    done(*command)
    message = refused(tmp_path, *command, "--seed", "1")
    assert message.startswith("checkpoint must be a folder of the same fit; got ")
    assert "differs in" in message
    assert "key" in message


@pytest.fixture
def options(tmp_path):
    output = ["--output", tmp_path / "m.safetensors"]
    return ["--target", "price", "--drop", "id", *output]


def test_a_fit_that_is_interrupted_before_its_first_step_writes_nothing(
    folder, tmp_path, monkeypatch, run, options
):
    def interrupt(self, X, y, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr(bb.BBAlphaRegressor, "fit", interrupt)
    result = run("fit", folder / "prices.csv", *options)
    assert result.exit_code == 130
    assert result.stderr == "Interrupted before the first step; no model was written.\n"
    assert list(tmp_path.iterdir()) == []


def test_a_fit_that_is_interrupted_before_it_compiles_writes_nothing(
    folder, tmp_path, monkeypatch, run, options, terminal
):
    fit = bb.BBAlphaRegressor.fit

    def interrupted(self, X, y, **settings):
        signal.raise_signal(signal.SIGINT)
        return fit(self, X, y, **settings)

    monkeypatch.setattr(bb.BBAlphaRegressor, "fit", interrupted)
    result = run("fit", folder / "prices.csv", *options, "--hidden", "none")
    assert result.exit_code == 130
    assert result.stderr == "Interrupted before the first step; no model was written.\n"
    assert list(tmp_path.iterdir()) == []


def test_a_fit_that_is_interrupted_amid_compilation_writes_nothing(
    folder, tmp_path, run, options, terminal
):
    """The signal arrives between lowering and compiling the program of the first steps."""
    callers = []

    def interrupt(event, duration, **_):
        files = {frame.filename for frame in traceback.extract_stack()}
        if event == LOWERED and not callers and bbalpha.engine.loop.__file__ in files:
            callers.append(files)
            signal.raise_signal(signal.SIGINT)

    jax.monitoring.register_event_duration_secs_listener(interrupt)
    try:
        result = run("fit", folder / "prices.csv", *options, "--hidden", "none", "--samples", "7")
    finally:
        jax.monitoring.unregister_event_duration_listener(interrupt)
    assert callers
    assert result.exit_code == 130
    assert result.stderr.endswith("Interrupted before the first step; no model was written.\n")
    assert list(tmp_path.iterdir()) == []


def test_a_model_that_is_being_written_is_written_to_the_end(
    folder, prices, tmp_path, monkeypatch, run, options, terminal
):
    fitted, path = bb.BBAlphaRegressor.load(prices), tmp_path / "m.safetensors"

    def fit(self, X, y, **settings):
        vars(self).update(vars(fitted))

    def interrupted(path, tree, metadata, write=model_file.write):
        signal.raise_signal(signal.SIGINT)
        write(path, tree, metadata)

    monkeypatch.setattr(bb.BBAlphaRegressor, "fit", fit)
    monkeypatch.setattr(model_file, "write", interrupted)
    result = run("fit", folder / "prices.csv", *options)
    assert result.exit_code == 130
    assert result.stderr.endswith(f"Interrupted; the model is in {path}.\n")
    assert model_file.read(path)[1] == model_file.read(prices)[1]


@pytest.fixture
def terminal():
    """Handlers as in a terminal; pytest may run in the background, where SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_energy_that_is_not_finite_is_told(
    folder, prices, tmp_path, monkeypatch, refused, options
):
    posterior = bb.BBAlphaRegressor.load(prices).posterior_

    def fail(self, X, y, **settings):
        raise bb.NonFiniteEnergyError(7, posterior)

    monkeypatch.setattr(bb.BBAlphaRegressor, "fit", fail)
    message = refused(tmp_path, "fit", folder / "prices.csv", *options)
    assert message.startswith(
        "the energy was no longer finite at step 7; a smaller --learning-rate"
    )


def test_a_defect_is_not_taken_for_a_mistake_of_the_user(folder, monkeypatch, run, options):
    def fail(self, X, y, **settings):
        raise ValueError("a defect")

    monkeypatch.setattr(bb.BBAlphaRegressor, "fit", fail)
    with pytest.raises(ValueError, match="a defect"):
        run("fit", folder / "prices.csv", *options)
