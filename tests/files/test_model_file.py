"""A model file gives back the posterior that was saved; any other file gets an error message."""

import json
import pickle
import re
import struct
from concurrent.futures import ThreadPoolExecutor

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

import bbalpha as bb
from bbalpha.files import model_file

KEY = jax.random.key(0)
VERSION = model_file.FORMAT_VERSION
PARAMS = {"weights": jnp.zeros(2), "bias": jnp.zeros(())}
MEAN = jnp.array([0.5, 1.0, -2.0])
SCALE = jnp.array([-1.0, -0.5, 0.0])


class Laplace(eqx.Module):
    """A distribution of the user's own."""

    mean: jax.Array
    log_scale: jax.Array

    @property
    def variance(self):
        return 2 * jnp.exp(2 * self.log_scale)

    def noise(self, key):
        return jax.random.laplace(key, self.mean.shape)

    def transform(self, noise):
        return self.mean + jnp.exp(self.log_scale) * noise

    def log_prob(self, params):
        distance = jnp.abs(params - self.mean) * jnp.exp(-self.log_scale)
        return -jnp.sum(distance + self.log_scale + jnp.log(2.0))


DISTRIBUTIONS = {
    "DiagonalGaussian": bb.DiagonalGaussian(MEAN, SCALE),
    "FullGaussian": bb.FullGaussian(MEAN, SCALE, 0.1 * jnp.arange(9.0).reshape(3, 3)),
    "LowRankGaussian": bb.LowRankGaussian(MEAN, SCALE, 0.1 * jnp.arange(6.0).reshape(3, 2)),
}
INFO = bb.FitInfo(
    energies=(3.5, float("nan")),
    held_out=((1, -2.0), (2, -float("inf"))),
    num_steps=8,
    seconds=0.25,
    stopped="early",
)


def posterior_with(q, hyperparams=None):
    return bb.Posterior(
        q=q,
        prior=bb.DiagonalGaussian(jnp.zeros(3), jnp.ones(3)),
        hyperparams=hyperparams,
        alpha=jnp.array(0.5),
        num_data=jnp.array(7.0),
        energy=jnp.array(12.5),
        layout=bb.Layout.of(PARAMS),
        info=INFO,
    )


def model(params, inputs):
    return inputs @ params["weights"] + params["bias"]


def assert_same(posterior, other):
    assert jax.tree.structure(posterior.q) == jax.tree.structure(other.q)
    assert posterior.layout == other.layout
    assert repr(posterior.info) == repr(other.info)  # NaN is not equal to itself
    for leaf, expected in zip(jax.tree.leaves(other), jax.tree.leaves(posterior), strict=True):
        assert leaf.dtype == expected.dtype
        np.testing.assert_array_equal(leaf, expected)


def said(message):
    return f"^{re.escape(message)}$"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


@pytest.fixture
def saved(path):
    """The path of a good file."""
    posterior_with(DISTRIBUTIONS["DiagonalGaussian"]).save(path)
    return path


def rewrite(path, arrays=None, **metadata):
    """Change arrays and metadata of a good file; None removes a thing."""
    with path.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        text = json.loads(file.read(length))["__metadata__"]["bbalpha"]
    changed = {**json.loads(text), **metadata}
    kept = {**load_file(path), **(arrays or {})}
    save_file(
        {name: array for name, array in kept.items() if array is not None},
        path,
        {
            "bbalpha": json.dumps(
                {key: value for key, value in changed.items() if value is not None}
            ),
            "sha256": "0" * 64,
        },
    )
    model_file._seal(path)


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_a_loaded_posterior_equals_the_saved_one_and_predicts_the_same(name, path):
    posterior = posterior_with(DISTRIBUTIONS[name])
    posterior.save(path)
    loaded = bb.Posterior.load(path, PARAMS)
    assert_same(posterior, loaded)
    inputs = jnp.linspace(-1.0, 1.0, 8).reshape(4, 2)
    np.testing.assert_array_equal(
        loaded.predict(model, inputs, key=KEY, num_samples=5),
        posterior.predict(model, inputs, key=KEY, num_samples=5),
    )


def test_learned_hyperparams_come_back_in_their_own_class(path):
    noise = bb.Gaussian(jnp.array([-1.5, 0.5]))
    posterior = posterior_with(DISTRIBUTIONS["DiagonalGaussian"], noise)
    posterior.save(str(path))
    loaded = bb.Posterior.load(str(path), PARAMS, bb.Gaussian(jnp.zeros(2)))
    assert isinstance(loaded.hyperparams, bb.Gaussian)
    assert_same(posterior, loaded)


def test_a_distribution_of_ones_own_comes_back_given_an_example(path):
    posterior = posterior_with(Laplace(MEAN, SCALE))
    posterior.save(path)
    loaded = bb.Posterior.load(path, PARAMS, q=Laplace(jnp.zeros(3), jnp.zeros(3)))
    assert_same(posterior, loaded)


def test_a_distribution_of_ones_own_is_not_loaded_without_an_example(path):
    posterior_with(Laplace(MEAN, SCALE)).save(path)
    message = (
        "q must be given for a distribution that is not bbalpha's own; "
        "got Laplace in model.safetensors."
    )
    with pytest.raises(ValueError, match=said(message)):
        bb.Posterior.load(path, PARAMS)


def test_an_example_of_another_distribution_is_refused(saved):
    message = "q must be a DiagonalGaussian, as in model.safetensors; got a Laplace."
    with pytest.raises(ValueError, match=said(message)):
        bb.Posterior.load(saved, PARAMS, q=Laplace(MEAN, SCALE))


def test_half_precision_survives_the_file(path):
    params = jnp.zeros(2, jnp.bfloat16)
    q = bb.DiagonalGaussian(params + 1, params - 1)
    scalar = jnp.array(1.0)
    posterior = bb.Posterior(q, q, None, scalar, scalar, scalar, bb.Layout.of(params), INFO)
    posterior.save(path)
    assert_same(posterior, bb.Posterior.load(path, params))


def test_a_loaded_posterior_passes_through_compiled_code(saved):
    loaded = bb.Posterior.load(saved, PARAMS)
    doubled = jax.jit(lambda posterior: 2 * posterior.mean["bias"])(loaded)
    np.testing.assert_array_equal(doubled, 1.0)


def test_saving_leaves_no_other_file_behind(saved):
    assert [file.name for file in saved.parent.iterdir()] == ["model.safetensors"]
    posterior_with(DISTRIBUTIONS["FullGaussian"]).save(saved)  # over the first
    assert [file.name for file in saved.parent.iterdir()] == ["model.safetensors"]
    assert isinstance(bb.Posterior.load(saved, PARAMS).q, bb.FullGaussian)


def test_a_folder_that_does_not_exist_is_reported(tmp_path):
    path = tmp_path / "nowhere" / "model.safetensors"
    message = f"{path} cannot be written: no such file or directory."
    with pytest.raises(OSError, match=said(message)):
        posterior_with(DISTRIBUTIONS["DiagonalGaussian"]).save(path)
    assert not list(tmp_path.iterdir())


def test_a_path_that_is_a_folder_is_reported_and_left_alone(tmp_path):
    folder = tmp_path / "model.safetensors"
    folder.mkdir()
    with pytest.raises(OSError, match=said(f"{folder} cannot be written: is a directory.")):
        posterior_with(DISTRIBUTIONS["DiagonalGaussian"]).save(folder)
    assert list(tmp_path.rglob("*")) == [folder]
    with pytest.raises(FileNotFoundError, match=said(f"{folder} is not a file.")):
        bb.Posterior.load(folder, PARAMS)


def test_a_write_that_fails_keeps_the_file_that_was_there(monkeypatch, saved):
    def full_disk(arrays, path, metadata):
        path.write_bytes(b"half of a mod")
        raise OSError("No space left on device")

    before = saved.read_bytes()
    monkeypatch.setattr("safetensors.numpy.save_file", full_disk)
    with pytest.raises(OSError, match=r"cannot be written: no space left on device\.$"):
        posterior_with(DISTRIBUTIONS["FullGaussian"]).save(saved)
    assert saved.read_bytes() == before
    assert [file.name for file in saved.parent.iterdir()] == ["model.safetensors"]


def test_a_file_that_does_not_exist_is_reported(path):
    with pytest.raises(FileNotFoundError, match=said(f"there is no file {path}.")):
        bb.Posterior.load(path, PARAMS)


@pytest.mark.parametrize(
    "content",
    [b"", b"inputs,targets\n1.0,2.0\n", b"\x00" * 100, b"\xff" * 100, pickle.dumps({"q": [1.0]})],
    ids=["empty", "text", "zeros", "ones", "pickle"],
)
def test_a_file_of_another_kind_is_reported(path, content):
    path.write_bytes(content)
    message = r"^model\.safetensors is not a complete safetensors file: .*\.$"
    with pytest.raises(ValueError, match=message):
        bb.Posterior.load(path, PARAMS)


def test_a_file_cut_short_anywhere_is_reported(saved):
    content = saved.read_bytes()
    message = r"^model\.safetensors is not a complete safetensors file: .*\.$"
    for cut in range(len(content)):
        saved.write_bytes(content[:cut])
        with pytest.raises(ValueError, match=message):
            bb.Posterior.load(saved, PARAMS)


@pytest.mark.parametrize(
    ("metadata", "problem"),
    [
        (None, "it has no metadata."),
        ({"format": "pt"}, "it has no metadata."),
        ({"bbalpha": ""}, "its metadata are not readable."),
        ({"bbalpha": '{"q": "Diag'}, "its metadata are not readable."),
        ({"bbalpha": "[1, 2]"}, "its metadata are not readable."),
        ({"bbalpha": "[" * 100_000}, "its metadata are not readable."),
        ({"bbalpha": "9" * 10_000}, "its metadata are not readable."),
    ],
    ids=["none", "foreign", "empty", "garbled", "a list", "bottomless", "a large number"],
)
def test_a_safetensors_file_that_is_not_a_model_is_reported(path, metadata, problem):
    save_file({"weights": np.zeros(3)}, path, metadata)
    message = f"model.safetensors is not a bbalpha model: {problem}"
    with pytest.raises(ValueError, match=said(message)):
        bb.Posterior.load(path, PARAMS)


@pytest.mark.parametrize("version", [None, 1, VERSION - 1, VERSION + 1, str(VERSION), [VERSION]])
def test_a_file_of_another_version_is_reported(saved, version):
    rewrite(saved, version=version)
    remedy = "Update bbalpha" if version == VERSION + 1 else "Fit and save the model again"
    message = (
        f"model.safetensors has format version {version}; this bbalpha reads version {VERSION}. "
        f"{remedy}."
    )
    with pytest.raises(ValueError, match=said(message)):
        bb.Posterior.load(saved, PARAMS)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("q", None),
        ("q", 3),
        ("q", ["DiagonalGaussian"]),
        ("prior", None),
        ("prior", {}),
        ("info", None),
        ("info", 3),
        ("info", [1, 2]),
        ("info", {"energies": 3}),
        ("info", {"energies": ["x"]}),
        ("info", {"held_out": [1.0]}),
        ("info", {"held_out": [[1, 2.0, 3]]}),
        ("info", {"num_steps": float("inf")}),
        ("info", {"seconds": []}),
        ("info", {"color": "red"}),
    ],
)
def test_metadata_of_the_wrong_kind_are_reported(saved, key, value):
    rewrite(saved, **{key: value})
    message = f"model.safetensors is not a valid bbalpha model: {key} is {value!r}."
    with pytest.raises(ValueError, match=said(message)):
        bb.Posterior.load(saved, PARAMS)


BAD_ARRAYS = {
    "missing": (
        {".q.mean": None},
        "model.safetensors does not match the model: it lacks .q.mean.",
    ),
    "unexpected": (
        {".q.skew": np.zeros(3, np.float32)},
        "model.safetensors does not match the model: it has .q.skew, which the model lacks.",
    ),
    "of another length": (
        {".q.log_variance": np.zeros(4, np.float32)},
        "model.safetensors does not match the model: "
        ".q.log_variance has shape (4,) instead of (3,).",
    ),
    "of another rank": (
        {".energy": np.zeros((1, 1), np.float32)},
        "model.safetensors does not match the model: .energy has shape (1, 1) instead of ().",
    ),
    "of integers": (
        {".prior.mean": np.zeros(3, np.int64)},
        "model.safetensors does not match the model: "
        ".prior.mean holds int64 instead of floating-point numbers.",
    ),
}


@pytest.mark.parametrize("name", BAD_ARRAYS)
def test_arrays_that_do_not_match_the_model_are_reported(saved, name):
    arrays, message = BAD_ARRAYS[name]
    rewrite(saved, arrays)
    with pytest.raises(ValueError, match=said(message)):
        bb.Posterior.load(saved, PARAMS)


@pytest.mark.parametrize(
    ("name", "value", "problem"),
    [
        (".q.log_variance", 200, ".q.log_variance is not finite, or too large for float32."),
        (".q.log_variance", -np.inf, ".q.log_variance is not finite, or too large for float32."),
        (".q.mean", np.nan, ".q.mean is not finite, or too large for float32."),
        (".alpha", np.inf, ".alpha is not finite, or too large for float32."),
        (".num_data", -1, ".num_data is -1.0, which is not positive."),
        (".num_data", 0, ".num_data is 0.0, which is not positive."),
    ],
)
def test_numbers_that_no_fit_gives_are_reported(saved, name, value, problem):
    rewrite(saved, {name: np.full_like(load_file(saved)[name], value, np.float32)})
    message = f"model.safetensors is not a valid bbalpha model: {problem}"
    with pytest.raises(ValueError, match=said(message)):
        bb.Posterior.load(saved, PARAMS)


@pytest.mark.parametrize(
    "info",
    [
        *({"stopped": "\x1b[2J"}, {"stopped": "x" * 41}, {"num_steps": -1}, {"seconds": -0.5}),
        *({"num_steps": 2**63}, {"skipped": [-1]}, {"held_out": [[-1, 2.0]]}),
    ],
    ids=repr,
)
def test_a_record_that_no_fit_gives_is_reported(saved, info):
    rewrite(saved, info=info)
    message = r"^model\.safetensors is not a valid bbalpha model: info is \{[ -~]*\}\.$"
    with pytest.raises(ValueError, match=message):
        bb.Posterior.load(saved, PARAMS)


def test_a_model_of_64_bits_that_is_read_in_32_gets_a_warning(path):
    with jax.enable_x64(True):
        params = jax.tree.map(lambda leaf: np.asarray(leaf, np.float64), PARAMS)
        wide = bb.DiagonalGaussian(*(jnp.asarray(np.asarray(x, float)) for x in (MEAN, SCALE)))
        posterior_with(wide).save(path)
        assert bb.Posterior.load(path, params).q.mean.dtype == np.float64  # without a warning
    message = (
        r"^model\.safetensors was saved in 64 bits and is read in 32, so its predictions change: "
        r"they average over other draws\. Set JAX_ENABLE_X64=1, or .* to get the same "
        r"predictions\.$"
    )
    with pytest.warns(UserWarning, match=message):
        assert bb.Posterior.load(path, PARAMS).q.mean.dtype == np.float32


@pytest.mark.parametrize(
    ("factor", "found"),
    [
        (None, "it lacks .q.factor."),
        (np.zeros((), np.float32), ".q.factor has shape () instead of (3, 1)."),
        (np.zeros((2, 5), np.float32), ".q.factor has shape (2, 5) instead of (3, 1)."),
        (np.zeros((0, 10**12), np.float32), ".q.factor has shape (0, 1000000000000) instead of (3"),
    ],
)
def test_a_low_rank_factor_that_does_not_match_is_reported_and_not_allocated(path, factor, found):
    posterior_with(DISTRIBUTIONS["LowRankGaussian"]).save(path)
    rewrite(path, {".q.factor": factor})
    with pytest.raises(ValueError, match=re.escape(found)):
        bb.Posterior.load(path, PARAMS)


def test_numbers_of_a_type_that_numpy_lacks_are_reported(path):
    entry = {"dtype": "F8_E4M3", "shape": [3], "data_offsets": [0, 3]}
    metadata = {"bbalpha": json.dumps({"version": VERSION}), "sha256": "0" * 64}
    tree = {"__metadata__": metadata, ".q.mean": entry}
    header = json.dumps(tree, separators=(",", ":")).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + bytes(3))
    model_file._seal(path)
    with pytest.raises(ValueError, match=r"^model\.safetensors is not a complete safetensors"):
        bb.Posterior.load(path, PARAMS)


def test_a_changed_byte_anywhere_is_reported(saved):
    content = saved.read_bytes()
    for position in range(len(content)):
        changed = bytearray(content)
        changed[position] ^= 1 << position % 8
        saved.write_bytes(changed)
        with pytest.raises(ValueError, match=r"^model\.safetensors (is|has|does) .*\.$"):
            bb.Posterior.load(saved, PARAMS)


def test_a_model_without_its_checksum_is_reported(saved):
    with safe_open(saved, "numpy") as file:
        metadata = {"bbalpha": file.metadata()["bbalpha"]}
    save_file(load_file(saved), saved, metadata)
    message = "model.safetensors is not a bbalpha model: it has no checksum."
    with pytest.raises(ValueError, match=said(message)):
        bb.Posterior.load(saved, PARAMS)


def test_a_file_of_a_model_with_other_parameters_is_reported(saved):
    message = (
        "params must have the leaves that were fitted, with the same paths, shapes and transforms; "
        "got ['', [5]] where model.safetensors has [\"['bias']\", []]."
    )
    with pytest.raises(ValueError, match=said(message)):
        bb.Posterior.load(saved, jnp.zeros(5))


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"bias": jnp.zeros(1), "weights": jnp.zeros(2)}, r"got .*bias.*\[1\]\] where .*\[\]\]\.$"),
        ({"bias": jnp.zeros(()), "w": jnp.zeros(2)}, r"got .*'w'.* where .*weights"),
        ({"bias": jnp.zeros(())}, r"got no leaf where .*weights"),
        ({**PARAMS, "zeros": jnp.zeros(0)}, r"got .*zeros.* where model.safetensors has no leaf"),
    ],
)
def test_a_tree_of_other_leaves_is_refused(saved, params, message):
    with pytest.raises(ValueError, match=message):
        bb.Posterior.load(saved, params)


@pytest.mark.parametrize("params", [None, 3, {"bias": []}])
def test_a_file_that_does_not_tell_its_leaves_is_refused(saved, params):
    rewrite(saved, params=params)
    with pytest.raises(ValueError, match=r"^model\.safetensors is not a valid .*: params is "):
        bb.Posterior.load(saved, PARAMS)


def test_threads_that_save_to_one_path_leave_one_whole_file(path):
    posteriors = [posterior_with(q) for q in DISTRIBUTIONS.values()]

    def save_often(posterior):
        for _ in range(15):
            posterior.save(path)

    with ThreadPoolExecutor(len(posteriors)) as pool:
        for done in [pool.submit(save_often, posterior) for posterior in posteriors]:
            done.result()
    assert type(bb.Posterior.load(path, PARAMS).q) in map(type, DISTRIBUTIONS.values())
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_a_file_that_is_replaced_keeps_its_permissions(saved):
    saved.chmod(0o600)
    posterior_with(DISTRIBUTIONS["FullGaussian"]).save(saved)
    assert saved.stat().st_mode & 0o777 == 0o600


def test_hyperparams_that_were_learned_must_be_asked_for(path):
    posterior_with(DISTRIBUTIONS["DiagonalGaussian"], bb.Gaussian()).save(path)
    message = (
        "model.safetensors does not match the model: "
        "it has .hyperparams.log_variance, which the model lacks."
    )
    with pytest.raises(ValueError, match=said(message)):
        bb.Posterior.load(path, PARAMS)


def test_hyperparams_that_were_not_learned_cannot_be_asked_for(saved):
    message = "model.safetensors does not match the model: it lacks .hyperparams.log_variance."
    with pytest.raises(ValueError, match=said(message)):
        bb.Posterior.load(saved, PARAMS, bb.Gaussian())


class Intruder:
    """Unpickling this would write a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (open, (str(self.path), "w"))


def test_a_pickle_in_place_of_a_model_is_not_executed(tmp_path, path):
    path.write_bytes(pickle.dumps(Intruder(tmp_path / "intruder")))
    with pytest.raises(ValueError, match=r"^model\.safetensors is not a complete safetensors"):
        bb.Posterior.load(path, PARAMS)
    assert not (tmp_path / "intruder").exists()


def test_loading_unpickles_nothing(monkeypatch, saved):
    def refuse(*args, **kwargs):
        raise AssertionError("a model file was unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    assert bb.Posterior.load(saved, PARAMS).info.num_steps == 8


def test_others_may_read_a_saved_file_as_any_new_one(tmp_path):
    (tmp_path / "plain").touch()
    posterior_with(DISTRIBUTIONS["FullGaussian"]).save(tmp_path / "model.safetensors")
    mode = (tmp_path / "model.safetensors").stat().st_mode
    assert mode == (tmp_path / "plain").stat().st_mode


def test_a_file_in_place_of_a_folder_is_reported(tmp_path):
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "model.safetensors"
    with pytest.raises(OSError, match=said(f"{path} cannot be written: not a directory.")):
        posterior_with(DISTRIBUTIONS["FullGaussian"]).save(path)
