"""Checkpoints: the same bits after every cut, nothing damaged read, nothing of another fit."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

import bbalpha as bb
from bbalpha.files import model_file
from bbalpha.files.atomic import _machine

pytestmark = pytest.mark.filterwarnings("ignore::bbalpha.ConvergenceWarning")

INPUTS = jax.random.normal(jax.random.key(1), (50, 2))
TARGETS = INPUTS @ jnp.array([1.0, -2.0]) + 0.3 * jax.random.normal(jax.random.key(2), (50,))
HELD_OUT = bb.Dataset(INPUTS[:10], TARGETS[:10])


def log_likelihood(weights, batch, noise):
    return noise.log_prob((batch.inputs @ weights)[:, None], batch.targets)


def log_likelihood_of_unit_noise(weights, batch):
    return log_likelihood(weights, batch, bb.Gaussian())


def fit(**settings):
    arguments = {
        "alpha": 0.5,
        "key": jax.random.key(0),
        "hyperparams": bb.Gaussian(),
        "num_samples": 10,
        "progress": False,
    } | settings
    data = bb.Dataset(INPUTS, arguments.pop("targets", TARGETS))
    function = arguments.pop("log_likelihood", log_likelihood)
    return bb.fit(function, jnp.zeros(2), data, **arguments)


KINDS = {
    "natural": {"num_epochs": 200, "tolerance": 0.1},
    "minibatches": {"optimizer": "adam", "num_epochs": 9, "learn_prior": True, "batch_size": 8},
    "shared noise": {"optimizer": "adam", "num_epochs": 9, "batch_size": 8, "resample_every": 3},
    "early stopping": {
        "optimizer": "adam",
        "num_epochs": 9,
        "early_stopping": bb.EarlyStopping(HELD_OUT, patience=2, num_samples=10),
    },
}


@pytest.fixture(autouse=True)
def short_chunks(monkeypatch):
    """Chunks end amid epochs, and every one of them is kept."""
    monkeypatch.setattr("bbalpha.engine.loop.CHUNK_SECONDS", 1e-3)


def assert_same(found, expected):
    for leaf, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_array_equal(leaf, other)
    assert found.info.energies == expected.info.energies
    assert found.info.held_out == expected.info.held_out
    assert found.info.num_steps == expected.info.num_steps
    assert found.info.stopped == expected.info.stopped
    assert found.info.converged == expected.info.converged
    assert found.info.fall == expected.info.fall


def files_of(folder):
    return sorted(folder.glob("step-*"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_run_goes_on_from_every_checkpoint_to_the_same_bits(kind, tmp_path, monkeypatch):
    monkeypatch.setattr("bbalpha.engine.loop.PART_STEPS", 1)  # epochs in parts
    settings = KINDS[kind]
    expected = fit(**settings)
    every = bb.Checkpoint(tmp_path / "all", seconds=0.0, keep=10**6)
    assert_same(fit(**settings, checkpoint=every), expected)
    files = files_of(tmp_path / "all")
    assert len(files) > 4
    for number in {0, 1, len(files) // 2, len(files) - 2, len(files) - 1}:
        folder = tmp_path / str(number)
        folder.mkdir()
        os.link(files[number], folder / files[number].name)
        assert_same(fit(**settings, checkpoint=folder), expected)


def test_replicas_go_on_to_the_same_bits(tmp_path):
    def fit_many(**settings):
        return bb.fit_many(
            log_likelihood_of_unit_noise,
            jnp.zeros((3, 2)),
            bb.Dataset(INPUTS, TARGETS),
            keys=jax.random.split(jax.random.key(0), 3),
            num_samples=10,
            progress=False,
            **{"optimizer": "adam", "num_epochs": 8, "batch_size": 8} | settings,
        )

    natural = {"optimizer": "natural", "num_epochs": 500, "batch_size": None, "tolerance": 0.1}
    natural |= {"alpha": jnp.array([0.0, 0.5, float(len(INPUTS))])}
    adam = {"alpha": jnp.array([0.0, 0.5, 1.0])}
    for kind, settings in {"adam": adam, "natural": natural}.items():
        expected = fit_many(**settings)
        folder = tmp_path / kind
        fit_many(checkpoint=bb.Checkpoint(folder, seconds=0.0, keep=10**6), **settings)
        files = files_of(folder)
        for late in files[-len(files) // 4 :]:
            late.unlink()
        for found, other in zip(fit_many(checkpoint=folder, **settings), expected, strict=True):
            assert_same(found, other)
    assert len({one.info.num_steps for one in expected}) > 1  # some ended before others


def test_a_natural_run_that_used_up_its_budget_goes_on_with_a_larger_one(tmp_path):
    fit(num_epochs=30, checkpoint=tmp_path)
    assert_same(fit(num_epochs=60, checkpoint=tmp_path), fit(num_epochs=60))


def test_a_damaged_checkpoint_is_skipped_for_the_one_before(tmp_path):
    settings = KINDS["minibatches"]
    expected = fit(**settings, checkpoint=bb.Checkpoint(tmp_path, seconds=0.0))
    before, last = files_of(tmp_path)
    content = bytearray(last.read_bytes())
    content[-5] ^= 1
    last.write_bytes(content)
    with pytest.warns(UserWarning, match=rf"^A checkpoint was skipped: {last.name} is damaged"):
        assert_same(fit(**settings, checkpoint=tmp_path), expected)
    assert before.exists()


def test_no_flipped_byte_and_no_cut_is_read_as_good(tmp_path):
    fit(**KINDS["minibatches"], checkpoint=tmp_path)
    content = files_of(tmp_path)[-1].read_bytes()
    path = tmp_path / "changed"
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises((ValueError, OSError)):
            model_file.read(path)
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises((ValueError, OSError)):
            model_file.read(path)


OTHER_FITS = {
    "data": {"targets": TARGETS + 1},
    "alpha": {"alpha": 0.4},
    "key": {"key": jax.random.key(1)},
    "prior": {"prior": 2.0},
    "hyperparams": {"hyperparams": bb.Gaussian(log_variance=jnp.array([0.1]))},
    "batch_size": {"batch_size": 16},
    "num_samples": {"num_samples": 11},
    "sample_weight": {"sample_weight": np.full(50, 2.0)},
    "num_epochs": {"num_epochs": 10},
    "draws": {"draws": "antithetic"},
    "early_stopping": {"early_stopping": bb.EarlyStopping(HELD_OUT)},
    "a function of the model": {"log_likelihood": lambda *args: 2 * log_likelihood(*args)},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kept")
    fit(**KINDS["minibatches"], checkpoint=folder)
    return folder


@pytest.mark.parametrize("argument", OTHER_FITS)
def test_a_checkpoint_of_another_fit_is_refused_by_the_argument(argument, folder):
    before = [path.read_bytes() for path in files_of(folder)]
    settings = KINDS["minibatches"] | OTHER_FITS[argument]
    with pytest.raises(ValueError, match=rf"of a fit that differs in .*\b{argument}\b.*\. Use an"):
        fit(**settings, checkpoint=folder)
    assert [path.read_bytes() for path in files_of(folder)] == before


@pytest.mark.parametrize(("fact", "value"), [("cores", 99), ("processor", "other")])
def test_what_changes_rounding_is_a_warning(fact, value, folder, monkeypatch):
    monkeypatch.setattr(f"bbalpha.runtime.fingerprints.{fact}", lambda: value)
    message = rf"^The checkpoint was written elsewhere, .* rounding: {fact} was .+, is {value}\.$"
    with pytest.warns(UserWarning, match=message):
        fit(**KINDS["minibatches"], checkpoint=folder)


def test_another_jax_may_print_programs_in_another_way(folder, monkeypatch):
    monkeypatch.setattr("jax.__version__", "99")
    monkeypatch.setattr("bbalpha.runtime.fingerprints._text_of_step", lambda *args: "other")
    with pytest.warns(UserWarning, match=r"rounding: jax was .* is 99 with"):
        fit(**KINDS["minibatches"], checkpoint=folder)


def test_only_the_newest_are_kept_and_leftovers_are_removed(tmp_path):
    (tmp_path / f".bbalpha-{_machine()}-{2**40}-0123456789abcdef.safetensors").touch()
    fit(**KINDS["minibatches"], checkpoint=bb.Checkpoint(tmp_path, seconds=0.0, keep=3))
    assert len(files_of(tmp_path)) == 3
    assert sorted(tmp_path.iterdir()) == files_of(tmp_path)


def test_files_of_others_stay(tmp_path):
    names = ("step-9.safetensors", "step-900000000000.safetensors", "step-b.safetensors")
    for name in names:
        (tmp_path / name).write_text("mine")
    with pytest.warns(UserWarning, match=r"^A checkpoint was skipped: step-90+\.safetensors"):
        fit(**KINDS["minibatches"], checkpoint=bb.Checkpoint(tmp_path, seconds=0.0))
    assert all((tmp_path / name).read_text() == "mine" for name in names)
    assert len(files_of(tmp_path)) == len(names) + 2


def test_checkpoints_are_saved_and_kept_after_damaged_ones_with_higher_numbers(tmp_path, folder):
    damaged = tmp_path / "step-999999999999.safetensors"
    damaged.write_bytes(files_of(folder)[-1].read_bytes()[:-1])
    with pytest.warns(UserWarning, match=r"^A checkpoint was skipped: step-9+\.safetensors"):
        fit(**KINDS["minibatches"], checkpoint=bb.Checkpoint(tmp_path, seconds=0.0))
    *_, before, last, skipped = files_of(tmp_path)
    assert len(files_of(tmp_path)) == 3
    assert before.name < last.name == files_of(folder)[-1].name
    assert skipped == damaged


def test_a_natural_run_cannot_go_back_to_a_smaller_budget(tmp_path):
    fit(num_epochs=30, checkpoint=tmp_path)
    message = r"^num_epochs must be at least 30, because the fit in .* has taken 30 steps; got "
    with pytest.raises(ValueError, match=message + r"num_epochs=10\. Use another folder\.$"):
        fit(num_epochs=10, checkpoint=tmp_path)


FORGERIES = {
    "not finite": (lambda arrays, _: arrays["['state'].variables.q.mean"].fill(np.nan), "state is"),
    "another step": (lambda arrays, _: arrays["['state'].step"].fill(-7), "named for another step"),
    "no energies": (lambda arrays, _: arrays.pop("['energies']"), "record is not that of a fit"),
    "no record": (lambda _, metadata: metadata.pop("record"), "record is not that of a fit"),
    "no seconds": (lambda _, metadata: metadata["record"].update(seconds=None), "record is not"),
    "no watches": (lambda _, metadata: metadata["record"].update(watches=[]), "record is not"),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_a_forged_checkpoint_is_refused(forgery, tmp_path, folder):
    forge, reason = FORGERIES[forgery]
    source = files_of(folder)[-1]
    arrays, metadata = model_file.read(source)
    arrays = {name: array.copy() for name, array in arrays.items()}
    forge(arrays, metadata)
    write_arrays(tmp_path / source.name, arrays, metadata)
    message = rf"^{source.name} is not a valid checkpoint: .*{re.escape(reason)}"
    with pytest.raises(ValueError, match=message):
        fit(**KINDS["minibatches"], checkpoint=tmp_path)


def write_arrays(path, arrays, metadata):
    """Write arrays under their names in a file with its checksum, as a forger would."""
    header = {"bbalpha": json.dumps(metadata), "sha256": model_file.NO_CHECKSUM}
    save_file(arrays, path, header)
    model_file._seal(path)


def test_a_full_disk_costs_the_checkpoint_and_not_the_fit(tmp_path, monkeypatch):
    expected = fit(**KINDS["minibatches"])
    write = model_file.write

    def fail_later(path, tree, metadata):
        if files_of(tmp_path):
            raise OSError(f"{path} cannot be written: No space left on device.")
        write(path, tree, metadata)

    monkeypatch.setattr(model_file, "write", fail_later)
    message = r"^A checkpoint was not saved; the fit continues: .* No space left on device\.$"
    with pytest.warns(UserWarning, match=message):
        found = fit(**KINDS["minibatches"], checkpoint=bb.Checkpoint(tmp_path, seconds=0.0))
    assert_same(found, expected)


@pytest.mark.parametrize(
    ("checkpoint", "error", "message"),
    [
        (3, TypeError, "checkpoint must be a folder or a bb.Checkpoint; got checkpoint=3."),
        (bb.Checkpoint("x", keep=0), ValueError, "checkpoint.keep must be"),
        (bb.Checkpoint("x", seconds=-1.0), ValueError, "checkpoint.seconds must be finite"),
        (
            bb.Checkpoint("x", seconds=np.nan),
            ValueError,
            "checkpoint.seconds must be finite",
        ),
        (
            bb.Checkpoint("x", seconds=np.inf),
            ValueError,
            "checkpoint.seconds must be finite",
        ),
        ("/dev/null/x", OSError, "/dev/null/x cannot be made: Not a directory."),
        ("/dev/null", ValueError, "checkpoint must be a folder; got the file /dev/null."),
    ],
)
def test_settings_are_checked(checkpoint, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=f"^{re.escape(message)}"):
        fit(checkpoint=checkpoint)


def test_a_model_file_is_no_checkpoint_and_a_checkpoint_no_model(tmp_path, folder):
    posterior = fit(**KINDS["minibatches"])
    posterior.save(tmp_path / "step-000000000001.safetensors")
    with pytest.raises(
        ValueError, match=r"^checkpoint must be a folder of checkpoints; got step-0+1\.safe"
    ):
        fit(checkpoint=tmp_path)
    with pytest.raises(ValueError, match=r"is not a valid bbalpha model"):
        bb.Posterior.load(files_of(folder)[-1], jnp.zeros(2), hyperparams=bb.Gaussian())


KILLED = """
import json, sys, warnings
import jax, numpy as np
sys.path.insert(0, sys.argv[2])
warnings.simplefilter("ignore")
import test_checkpoints as tests, bbalpha as bb
settings = dict(optimizer="adam", num_epochs=3000, batch_size=8)
found = tests.fit(**settings, checkpoint=bb.Checkpoint(sys.argv[1], seconds=0.02))
expected = tests.fit(**settings)
tests.assert_same(found, expected)
print(json.dumps(found.info.num_steps))
"""


def test_a_process_that_is_killed_goes_on_to_the_same_bits(tmp_path):
    """SIGKILL, then SIGTERM, which saves before it ends the process with its own code."""
    command = [sys.executable, "-c", KILLED, str(tmp_path), str(Path(__file__).parent)]
    newest = 0
    for number, code in ((signal.SIGKILL, -9), (signal.SIGTERM, -15)):
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as process:
            while step_of(tmp_path) <= newest and process.poll() is None:
                time.sleep(0.02)
            process.send_signal(number)
        assert process.returncode == code
        assert step_of(tmp_path) > newest
        newest = step_of(tmp_path)
    assert newest < 21_000, "it was to be killed before its end"
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == 21_000


def step_of(folder):
    """The step of the newest checkpoint."""
    return max((int(path.stem.removeprefix("step-")) for path in files_of(folder)), default=0)
