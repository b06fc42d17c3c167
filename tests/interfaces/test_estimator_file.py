"""A saved estimator comes back as it was; a damaged or forged file gets a message, cheaply."""

import copy
import dataclasses
import functools
import hashlib
import itertools
import json
import os
import pickle
import re
import stat
import struct
import subprocess
import sys
import tempfile
import threading
from fractions import Fraction
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest
from problems.invented import invented

import bbalpha as bb
from bbalpha.files.model_file import FORMAT_VERSION as VERSION
from bbalpha.interfaces import estimator_file

CLASSES = {kind.__name__: kind for kind in (bb.BBAlphaRegressor, bb.BBAlphaClassifier)}
BOTTOMLESS = "lists within lists"  # stands for more of them than Python can write
BLANK = "0" * 64  # in place of the checksum while it is computed
ROWS = np.random.RandomState(1).normal(size=(7, 2))

# What reading may allocate in addition to twice the file: the Python objects into which the header
# (2 kB here) is parsed, the piece of 64 kB for the checksum, and the exception.
OVERHEAD = 2**17
ADDRESS_SPACE = 2**28  # that threads and allocators may reserve without using it
SECONDS = 5.0  # for one file, which takes milliseconds


def saved_and_loaded(estimator, path):
    estimator.save(path)
    return type(estimator).load(path)


def assert_same(estimator, other):
    assert type(other) is type(estimator)
    assert other.get_params() == estimator.get_params()
    assert (other.n_iter_, other.n_features_in_) == (estimator.n_iter_, estimator.n_features_in_)
    assert other.posterior_.info == estimator.posterior_.info
    assert jax.tree.structure(other.posterior_) == jax.tree.structure(estimator.posterior_)
    trees = [
        (x.posterior_, dataclasses.asdict(x.input_units_), x.target_units_)
        for x in (estimator, other)
    ]
    for one, same in zip(*trees, strict=True):
        pairs = zip(jax.tree.leaves(one), jax.tree.leaves(same), strict=True)
        for expected, found in pairs:
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


def said(message):
    return f"^{re.escape(message)}$"


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.safetensors"


ANSWERS = np.array(["no", "perhaps", "yes"])[[0, 1, 2, 0, 1, 2, 0]]


@functools.cache
def regressor():
    model = bb.BBAlphaRegressor((), max_epochs=2, num_predictive_samples=20)
    return invented(model, names=["height", "weight"])


@functools.cache
def fitted_classifier():
    model = bb.BBAlphaClassifier((), max_epochs=2, num_predictive_samples=20, random_state=0)
    return model.fit(ROWS, ANSWERS)


# Round trips.


@pytest.mark.parametrize("num_outputs", [None, 2])
@pytest.mark.parametrize("likelihood", bb.BBAlphaRegressor._likelihoods)
@pytest.mark.parametrize("prior", ["scaled", "paper"])
def test_a_loaded_regressor_predicts_bit_for_bit_the_same(path, likelihood, num_outputs, prior):
    settings = {"likelihood": likelihood, "num_predictive_samples": 20, "activation": "tanh"}
    settings["prior"] = prior
    model = invented(bb.BBAlphaRegressor((3,), **settings), num_outputs=num_outputs)
    loaded = saved_and_loaded(model, path)
    assert_same(model, loaded)
    assert loaded.predict(ROWS).shape == ((7,) if num_outputs is None else (7, 2))
    np.testing.assert_array_equal(loaded.predict(ROWS), model.predict(ROWS))


LABELS = {
    "int": np.array([-3, 7]),
    "int8": np.array([-3, 7], np.int8),
    "unsigned": np.array([3, 7], np.uint8),
    "bool": np.array([False, True]),
    "float": np.array([0.1, 2.0]),
    "text": np.array(["nein", "ja α\n"])[::-1],
    "object": np.array(["ja", "nein"], object),
    "variable text": np.array(["ja", "nein"], np.dtypes.StringDType()),
}


@pytest.mark.parametrize("likelihood", ["softmax", "probit"])
@pytest.mark.parametrize("name", LABELS)
def test_a_loaded_classifier_predicts_bit_for_bit_the_same_labels(path, name, likelihood):
    settings = {"likelihood": likelihood, "num_predictive_samples": 20}
    model = invented(bb.BBAlphaClassifier((3,), **settings), classes=LABELS[name])
    loaded = saved_and_loaded(model, path)
    assert_same(model, loaded)
    assert loaded.classes_.dtype.kind == LABELS[name].dtype.kind
    np.testing.assert_array_equal(loaded.classes_, LABELS[name])
    np.testing.assert_array_equal(loaded.predict(ROWS), model.predict(ROWS))
    np.testing.assert_array_equal(loaded.predict_proba(ROWS), model.predict_proba(ROWS))


def test_a_fitted_estimator_comes_back_as_it_was(path):
    loaded = saved_and_loaded(fitted_classifier(), str(path))
    assert_same(fitted_classifier(), loaded)
    np.testing.assert_array_equal(loaded.predict(ROWS), fitted_classifier().predict(ROWS))


def test_names_of_features_come_back_and_are_checked(path):
    loaded = saved_and_loaded(regressor(), path)
    assert loaded.feature_names_in_.dtype == object
    assert loaded.feature_names_in_.tolist() == ["height", "weight"]
    with pytest.raises(ValueError, match="feature names should match"):
        loaded.predict(pd.DataFrame({"weight": [1.0], "height": [2.0]}))


def test_two_features_of_one_name_come_back(path):
    loaded = saved_and_loaded(invented(bb.BBAlphaRegressor(()), names=["a", "a"]), path)
    assert loaded.feature_names_in_.tolist() == ["a", "a"]


SETTINGS = {
    "alpha": (np.float64(0.25), 0.25),
    "prior_scale": (Fraction(1, 2), 0.5),
    "learning_rate": (np.float32(0.5), 0.5),
    "num_samples": (np.int64(5), 5),
    "batch_size": (np.uint8(16), 16),
    "learn_prior": (np.True_, True),
    "verbose": (1, True),
    "memory_size": (np.int16(0), 0),
    "activation": (np.str_("tanh"), "tanh"),
    "random_state": (np.int64(3), 3),
}


def test_settings_of_numpys_types_come_back_as_pythons(path):
    given, expected = ({name: pair[i] for name, pair in SETTINGS.items()} for i in (0, 1))
    loaded = saved_and_loaded(invented(bb.BBAlphaRegressor((), **given)), path)
    found = {name: loaded.get_params()[name] for name in SETTINGS}
    assert found == expected
    assert {name: type(x) for name, x in found.items()} == {
        name: type(x) for name, x in expected.items()
    }


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([4, 3], (4, 3)),
        ((np.int64(4), np.int32(3)), (4, 3)),
        (np.array([4, 3]), (4, 3)),
        ([], ()),
        (4, 4),
        (np.int64(4), 4),
    ],
    ids=repr,
)
def test_sizes_of_layers_come_back_in_whatever_form_they_were_given(path, given, expected):
    model = invented(bb.BBAlphaRegressor(given))
    loaded = saved_and_loaded(model, path)
    assert loaded.hidden_layer_sizes == expected
    assert loaded._network() == model._network()


@pytest.mark.parametrize("state", [np.random.RandomState(3), None])
def test_a_generator_is_not_saved_but_what_it_gave_is(path, state):
    model = invented(bb.BBAlphaRegressor((), random_state=state))
    loaded = saved_and_loaded(model, path)
    assert loaded.random_state is None
    assert loaded._seed == model._seed


@pytest.mark.parametrize(
    ("setting", "value"),
    [("alpha", lambda step: 0.5), ("num_predictive_samples", None), ("memory_size", "all")],
)
def test_a_setting_that_no_file_can_hold_is_reported_and_nothing_is_written(path, setting, value):
    model = invented(bb.BBAlphaRegressor(())).set_params(**{setting: value})
    message = rf"^this BBAlphaRegressor cannot be saved: {setting} is .*\.$"
    with pytest.raises(ValueError, match=message):
        model.save(path)
    assert not path.exists()


def test_a_setting_changed_after_the_fit_so_that_no_file_would_be_read_is_reported(path):
    model = invented(bb.BBAlphaRegressor(())).set_params(hidden_layer_sizes=(3,))
    message = r"saved: the network has 21 weights and biases, but .q.mean has shape \(6,\)\.$"
    with pytest.raises(ValueError, match=message):
        model.save(path)


def test_labels_that_no_file_can_hold_are_reported(path):
    days = np.array(["2020-01-01", "2020-01-02"], "M8[ns]")
    message = "this BBAlphaClassifier cannot be saved: the kind of labels is 'M'."
    with pytest.raises(ValueError, match=said(message)):
        invented(bb.BBAlphaClassifier(()), classes=days).save(path)


def test_an_interrupted_fit_whose_energy_is_not_known_comes_back(path):
    model = invented(bb.BBAlphaRegressor(()))
    model.posterior_ = dataclasses.replace(model.posterior_, energy=jnp.array(jnp.nan))
    assert np.isnan(saved_and_loaded(model, path).posterior_.energy)


def test_the_posterior_in_an_estimators_file_can_be_loaded_alone(path):
    model = regressor()
    model.save(path)
    loaded = bb.Posterior.load(path, model.posterior_.mean, model.posterior_.hyperparams)
    np.testing.assert_array_equal(loaded.q.mean, model.posterior_.q.mean)
    assert loaded.info == model.posterior_.info


def test_a_loaded_regressor_learns_on_with_its_posterior_as_prior(path):
    loaded = saved_and_loaded(regressor(), path)
    loaded.partial_fit(pd.DataFrame(ROWS, columns=["height", "weight"]), ROWS[:, 0])
    before, after = regressor().posterior_, loaded.posterior_
    np.testing.assert_array_equal(after.prior.mean, before.q.mean)
    np.testing.assert_array_equal(after.prior.log_variance, before.q.log_variance)
    assert (after.q.mean != before.q.mean).all()
    assert_same(loaded, saved_and_loaded(loaded, path))


def test_a_loaded_classifier_starts_warm_in_the_units_it_had(path):
    loaded = saved_and_loaded(fitted_classifier(), path).set_params(warm_start=True)
    loaded.fit(ROWS + 5, ANSWERS)
    before = fitted_classifier()
    np.testing.assert_array_equal(loaded.input_units_.mean, before.input_units_.mean)
    np.testing.assert_array_equal(loaded.posterior_.prior.mean, before.posterior_.prior.mean)
    assert (loaded.posterior_.q.mean != before.posterior_.q.mean).all()


def test_a_file_of_another_class_is_reported(path):
    fitted_classifier().save(path)
    message = "model.safetensors holds a BBAlphaClassifier, not a BBAlphaRegressor."
    with pytest.raises(ValueError, match=said(message)):
        bb.BBAlphaRegressor.load(path)
    fitted_classifier().posterior_.save(path)
    message = "model.safetensors holds only a posterior, not a BBAlphaClassifier."
    with pytest.raises(ValueError, match=said(message)):
        bb.BBAlphaClassifier.load(path)


# Devices, pipes and links.


def test_a_pipe_is_written_to_and_stays_one(tmp_path):
    pipe, copied = tmp_path / "pipe", tmp_path / "copied"
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: copied.write_bytes(pipe.read_bytes()), daemon=True)
    reader.start()
    regressor().save(pipe)
    reader.join(SECONDS)
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    assert_same(regressor(), bb.BBAlphaRegressor.load(copied))
    assert sorted(tmp_path.iterdir()) == [copied, pipe]


def test_a_link_stays_one_and_its_file_is_replaced(tmp_path):
    link, target = tmp_path / "link", tmp_path / "folder" / "target"
    target.parent.mkdir()
    link.symlink_to(target)
    for _ in range(2):
        regressor().save(link)
        assert link.is_symlink()
        assert_same(regressor(), bb.BBAlphaRegressor.load(target))
    assert [file.name for file in target.parent.iterdir()] == ["target"]


# Damage and forgery. A file is taken apart, changed and put together again, with the checksum that
# its forger would compute.


@functools.cache
def original():
    """The content of a good file, nearly all of which are its arrays."""
    model = invented(
        bb.BBAlphaClassifier((4096,), random_state=0),
        num_features=16,
        classes=np.array([f"class {letter}" for letter in "abcdefghij"]),
        names=[f"feature {number}" for number in range(16)],
    )
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder, "model"))
        return Path(folder, "model").read_bytes()


def parts():
    """The header of the good file, its metadata, and the bytes of its arrays."""
    content = original()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8 : 8 + length])
    return header, json.loads(header["__metadata__"]["bbalpha"]), content[8 + length :]


def forged(header, metadata, data, length=None):
    """The content of a file with these parts and, if it is not None, this length of the header."""
    text = json.dumps(metadata).replace(json.dumps(BOTTOMLESS), "[" * 5000 + "]" * 5000)
    words = {"bbalpha": text, "sha256": BLANK}
    text = json.dumps(header | {"__metadata__": words}, separators=(",", ":")).encode()
    content = struct.pack("<Q", len(text) if length is None else length) + text + data
    return content.replace(BLANK.encode(), hashlib.sha256(content).hexdigest().encode(), 1)


def damaged():
    """Bits flipped, bytes lost and bytes added, by chance."""
    stream = np.random.RandomState(0)
    content = original()
    (length,) = struct.unpack("<Q", content[:8])
    for start, end in [(0, 8), (8, 8 + length), (8 + length, len(content))]:
        for count in (1, 2, 3, 8, 30):
            changed = np.frombuffer(content, np.uint8).copy()
            places = stream.choice(np.arange(start, end), min(count, end - start), replace=False)
            changed[places] ^= (1 << stream.randint(0, 8, places.size)).astype(np.uint8)
            yield f"{count} of bytes {start} to {end} flipped", changed.tobytes()
    for cut in [0, 1, 8, 8 + length, len(content) - 1, *stream.randint(9, len(content), 5)]:
        yield f"cut after {cut}", content[:cut]
    for place in [0, 8, 8 + length, len(content), *stream.randint(9, len(content), 5)]:
        added = stream.bytes(stream.randint(1, 9))
        yield f"{len(added)} added at {place}", content[:place] + added + content[place:]
    place = stream.randint(8 + length, len(content) - 64)
    yield "a piece lost", content[:place] + content[place + 64 :]
    yield "zeros", bytes(len(content))


def with_false_lengths():
    """The header states a wrong length for itself, or wrong places for the arrays."""
    header, metadata, data = parts()
    (length,) = struct.unpack("<Q", forged(header, metadata, data)[:8])
    size = 8 + length + len(data)
    lengths = [0, 1, 7, 8, length - 8, length - 1, length + 1, length + 8, size - 8, size - 7]
    lengths += [size, 10**8, 10**8 + 1, 2**31, 2**32 + length, 2**63, 2**64 - 1]
    for false in lengths:
        yield f"header of {false}", forged(header, metadata, data, false)
    start, end = header[".q.mean"]["data_offsets"]
    for offsets in (
        *([0, end], [start, end + 4], [start + 4, end + 4], [end, start], [start, start]),
        *([start, size], [start, 2**40], [2**64 - 8, 2**64 - 1], [-4, end], [0.5, end], ["0", end]),
        *([start], [start, end, end], [], None),
    ):
        entry = header[".q.mean"] | {"data_offsets": offsets}
        yield f"offsets {offsets}", forged(header | {".q.mean": entry}, metadata, data)
    for shape in (
        *([0, 2**40], [0, 2**40, 2**40], [0, 2**63 - 1, 4], [0, 2**64 - 1], [2**63 - 1, 2**62, 0]),
        *([0] + [1] * 70, [0, 2**64], [-1], [1.5], ["1"], None),
    ):
        entry = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data)]}
        yield f"an empty array of {shape}", forged(header | {"empty": entry}, metadata, data)
    yield "fewer data", forged(header, metadata, data[:-4])
    yield "more data", forged(header, metadata, data + bytes(4))


def nested(depth):
    return functools.reduce(lambda inner, _: [inner], range(depth), 1)


WRONG = {
    "none": None,
    "empty list": [],
    "empty dictionary": {},
    "minus one": -1,
    "large": 1e308,
    "larger": int("9" * 400),
    "nan": float("nan"),
    "infinite": float("inf"),
    "text": "x\ny",
    "true": True,
    "nested": nested(15),
    "bottomless": BOTTOMLESS,
}

# Values that are not wrong: a user could have had that setting.
ALLOWED = {
    "feature_names": {"none"},
    "alpha": {"minus one"},
    "learning_rate": {"none"},
    "max_epochs": {"none"},
    "random_state": {"none"},
    "encoder": {"none"},
    "learn_prior": {"true"},
    "calibrate": {"true"},
    "early_stopping": {"true"},
    "warm_start": {"true"},
    "verbose": {"true"},
}

# Places in the metadata, and other values to put there.
ELSE = {
    ("version",): [0, 1, VERSION - 1, VERSION + 1, str(VERSION), [VERSION], f"{VERSION}\n9"],
    ("params",): [[1], [[]], [["[0]['biases']", [4096]]], [nested(10)], [["x", [1]]] * 1000],
    ("q",): ["LowRankGaussian", "FullGaussian", "CappedGaussian", "__import__", "Gaussian" * 1000],
    ("prior",): [nested(500), "LowRankGaussian", "os.system", ["DiagonalGaussian"]],
    ("info", "energies"): ["35", [[]], [None], ["3.5"], [True]],
    ("info", "held_out"): [[1.0], [[1, 2.0, 3]], [["1", 2.0]], [[1.5, 2.0]]],
    ("info", "num_steps"): ["8", 1.5],
    ("info", "color"): ["red"],
    ("estimator", "class"): ["__import__", "BBAlphaRegressor", "object", ["BBAlphaClassifier"]],
    ("estimator", "__class__"): ["object"],
    ("estimator", "settings", "__init__"): [1],
    ("estimator", "settings", "hidden_layer_sizes"): [
        *([10**9], [-1], [1.5], 10**30, [10**30], [2**62, 2**62], [0], [[4096]], "4096", [4096, 1]),
        *([1] * 100_000, {"4096": 1}, [True], 4097, [4096.0], ["4096"], [None], [[4096], [1, 2]]),
    ],
    ("estimator", "settings", "activation"): ["identity", "eval", ["relu"]],
    ("estimator", "settings", "likelihood"): ["gaussian", "probit", ["softmax"]],
    ("estimator", "settings", "alpha"): ["Auto", "0.5", ["auto"], True],
    ("estimator", "settings", "encoder"): ["none", ["auto"], {"auto": 1}, True],
    ("estimator", "settings", "prior"): ["flat", "paper", ["scaled"], "scaled\n"],
    ("estimator", "settings", "learn_prior"): ["Auto", 0, 1, 1.0, ["auto"], "true"],
    ("estimator", "settings", "num_predictive_samples"): [0, 10**30, 1.5, "1000"],
    ("estimator", "settings", "random_state"): [2**32, 0.5, "0"],
    ("estimator", "seed"): [2**31, 0.0, "7"],
    ("estimator", "encoder"): ["auto", [{}], {"columns": []}, {"__class__": "os.system"}],
    ("estimator", "feature_names"): [
        *([str(n) for n in range(15)], list(range(16)), "abcdefghijklmnop", [None] * 16, [[]] * 16),
    ],
    ("estimator", "input_units", "mean"): [
        *([0.0] * 15, [0.0] * 17, ["0"] * 16, "0" * 16, [float("nan")] * 16, [True] * 16, [0] * 16),
    ],
    ("estimator", "input_units", "scale"): [
        *([1.0] * 15, [0.0] * 16, [-1.0] * 16, [float("inf")] * 16, [[1.0]] * 16, [10**400] * 16),
    ],
    ("estimator", "input_units", "lower"): [
        *(
            [-9.0] * 15,
            [9.0] * 16,
            ["-9"] * 16,
            [float("nan")] * 16,
            [-9] * 16,
            [-float("inf")] * 16,
        ),
    ],
    ("estimator", "input_units", "upper"): [
        *([9.0] * 17, [-9.0] * 16, [[9.0]] * 16, [float("inf")] * 16, [True] * 16, [10**400] * 16),
    ],
    ("estimator", "input_units", "axes"): [
        *([[]] * 15, [[0.0] * 16] * 16, [[0.0] * 15] * 16, [[float("nan")] * 16] * 16),
        *([[1.0] + [0.0] * 15] * 16, [["0"] * 16] * 16, [0.0] * 256, [[[]]] * 16),
        np.eye(16, dtype=int).tolist(),
    ],
    ("estimator", "input_units"): [
        {"mean": [0.0] * 16, "scale": [1.0] * 16},
        {"mean": [0.0], "scale": [1.0], "lower": [-1.0], "upper": [1.0]},
        [[0.0] * 16, [1.0] * 16, [-1.0] * 16, [1.0] * 16],
    ],
    ("estimator", "input_units", "median"): [[0.0] * 16],
    ("estimator", "target_units", "mean"): [[1.0], [0.0, 0.0]],
    ("estimator", "target_units", "scale"): [[2.0], [float("nan")]],
    ("estimator", "target_units"): [{"mean": [0.0] * 2, "scale": [1.0] * 2}],
    ("estimator", "targets"): [{"is_vector": True}],
    ("estimator", "targets", "is_vector"): [True],
    ("estimator", "targets", "kind"): ["i", "b", "f", "S", "M", "__import__"],
    ("estimator", "targets", "classes"): [
        *(list("jihgfedcba"), list("abcdefghii"), list("abcdefghi"), list("abcdefghijk"), ["a"]),
        *([*"abcdefghi", 1], [*"abcdefghi", None], list(range(10)), "abcdefghij", [[]] * 10),
        *([*"abcdefghi", "j" * 10**6], dict.fromkeys("abcdefghij", 1)),
    ],
}
SWAPPED_SETTINGS = [
    ("alpha", "activation"),
    ("likelihood", "activation"),
    ("hidden_layer_sizes", "alpha"),
    ("hidden_layer_sizes", "num_samples"),
    ("learn_prior", "num_samples"),
    ("random_state", "verbose"),
    ("max_epochs", "batch_size"),
    ("validation_fraction", "patience"),
    ("learning_rate", "prior_scale"),
    ("prior", "likelihood"),
    ("prior", "learn_prior"),
    ("encoder", "prior"),
]


def place_of(metadata, keys):
    """The dictionary in the metadata in which the last key stands."""
    return functools.reduce(lambda inner, key: inner[key], keys[:-1], metadata)


def places(metadata):
    """Where every value of the metadata stands, as keys; the table is not this file's."""
    estimator = metadata["estimator"]
    fields = [("version",), ("q",), ("prior",), ("params",), ("info",), ("estimator",)]
    fields += [("info", name) for name in metadata["info"]]
    fields += [("estimator", name) for name in estimator]
    for name in ("settings", "input_units", "target_units", "targets"):
        fields += [("estimator", name, field) for field in estimator[name]]
    return fields


def with_false_metadata():
    """Values of other kinds, of other fields, missing or added."""
    header, metadata, data = parts()

    def changed(keys, value):
        copied = copy.deepcopy(metadata)
        place_of(copied, keys)[keys[-1]] = value
        return forged(header, copied, data)

    for keys in places(metadata):
        for name, value in WRONG.items():
            if name not in ALLOWED.get(keys[-1], ()) and keys[:-1] != ("info",):
                yield f"{'.'.join(keys)} {name}", changed(keys, value)
        if keys[1:] in (("converged",), ("fall",)):  # which older files do not say
            continue
        copied = copy.deepcopy(metadata)
        del place_of(copied, keys)[keys[-1]]
        yield f"{'.'.join(keys)} missing", forged(header, copied, data)
    for keys, values in ELSE.items():
        for number, value in enumerate(values):
            yield f"{'.'.join(keys)} else {number}", changed(keys, value)
    fields = [("estimator", name) for name in metadata["estimator"]]
    pairs = [*itertools.combinations(fields, 2), (("q",), ("info",)), (("prior",), ("version",))]
    settings = ("estimator", "settings")
    pairs += [((*settings, one), (*settings, other)) for one, other in SWAPPED_SETTINGS]
    for one, other in pairs:
        copied = copy.deepcopy(metadata)
        first, second = place_of(copied, one), place_of(copied, other)
        first[one[-1]], second[other[-1]] = second[other[-1]], first[one[-1]]
        yield f"{'.'.join(one)} and {'.'.join(other)} swapped", forged(header, copied, data)
    regressor = copy.deepcopy(metadata)
    regressor["estimator"] |= {"class": "BBAlphaRegressor", "targets": {"is_vector": False}}
    regressor["estimator"]["target_units"] = {"mean": [0.0] * 10, "scale": [1.0] * 10}
    yield "a regressor's metadata", forged(header, regressor, data)
    for text in ("", "{", "[]", "null", "NaN", "[" * 100_000, "9" * 10_000):
        words = json.dumps(text)[1:-1].encode()
        good = json.dumps(json.dumps(metadata))[1:-1].encode()
        content = forged(header, metadata, data).replace(good, words)
        (length,) = struct.unpack("<Q", content[:8])
        length += len(words) - len(good)
        yield f"metadata {text[:9]!r}", struct.pack("<Q", length) + content[8:]


TYPES = {"F32": np.float32, "I32": np.int32, "I64": np.int64, "C64": np.complex64, "BOOL": np.bool_}


def with_false_arrays():
    """Arrays of other shapes and types, missing, added, renamed or not finite."""
    header, metadata, data = parts()
    good = {
        name: np.frombuffer(data[slice(*entry["data_offsets"])], np.float32).reshape(entry["shape"])
        for name, entry in header.items()
        if name != "__metadata__"
    }

    def changed(**arrays):
        entries, pieces, start = {}, [], 0
        for name, array in (good | arrays).items():
            if array is not None:
                kind = next(kind for kind, dtype in TYPES.items() if dtype == array.dtype)
                offsets = [start, start + array.nbytes]
                entries[name] = {"dtype": kind, "shape": array.shape, "data_offsets": offsets}
                start += array.nbytes
                pieces.append(array.tobytes())
        return forged(entries, metadata, b"".join(pieces))

    assert changed() == forged({name: header[name] for name in good}, metadata, data)
    for name, array in good.items():
        changes = {
            "in a row": array.reshape(1, -1),
            "in a column": array.reshape(-1, 1),
            "longer": np.append(array, np.float32(0)),
            "of integers": array.astype(np.int32),
            "of long integers": array.astype(np.int64),
            "complex": array.astype(np.complex64),
            "of flags": array.astype(np.bool_),
            "missing": None,
        }
        if array.ndim:
            changes |= {
                "shorter": array[:-1],
                "in a rectangle": array.reshape(2, -1),
                "a number": array[0],
                "empty": array[:0],
                "empty and wide": np.zeros((0, 2**40), np.float32),
                "with a NaN": np.append(array[:-1], np.float32(np.nan)),
                "with an infinity": np.append(array[:-1], np.float32(-np.inf)),
            }
        elif name != ".energy":
            changes["NaN"] = np.full((), np.nan, np.float32)
        for change, other in changes.items():
            yield f"{name} {change}", changed(**{name: other})
        for renamed in (name[1:], f"{name}\n", name.upper(), "x" * 10_000):
            entries = {renamed if key == name else key: header[key] for key in good}
            yield f"{name} renamed {renamed[:9]!r}", forged(entries, metadata, data)
    for added in (".hyperparams", ".hyperparams.log_variance", ".q.factor", ".layout", ""):
        yield f"{added!r} added", changed(**{added: np.zeros(3, np.float32)})
    for kind in ("F8_E4M3", "F8_E8M0", "U8", "F4", "F6_E2M3", "F64", "X\nY", 3):
        entry = header[".q.mean"] | {"dtype": kind}
        yield f".q.mean as {kind!r}", forged(header | {".q.mean": entry}, metadata, data)


GROUPS = {
    "damaged": damaged,
    "false lengths": with_false_lengths,
    "false metadata": with_false_metadata,
    "false arrays": with_false_arrays,
}


def is_sentence(message):
    """A short line that begins with the name of the file and explains the problem."""
    form = r"model\.safetensors (is|has|holds|does) [^\n]*\."
    is_of_form = re.fullmatch(form, message) is not None
    return is_of_form and message.isprintable() and len(message) < 500


def test_a_file_that_is_put_together_again_unchanged_is_a_good_one(path):
    path.write_bytes(forged(*parts()))
    estimator, table = estimator_file.read(path, CLASSES)
    assert estimator.classes_[3] == "class d"
    assert table is None
    for name, values in ALLOWED.items():
        for value in values:  # the forgeries leave these out with good reason
            header, metadata, data = parts()
            section = metadata["estimator"]
            owner = next(x for x in (metadata, section, section["settings"]) if name in x)
            owner[name] = WRONG[value]
            path.write_bytes(forged(header, metadata, data))
            estimator_file.read(path, CLASSES)


# Reads the file again for every line that it gets, with little memory and under Python's audit.
READER = """
import json, re, resource, sys, time, tracemalloc
import bbalpha as bb
from bbalpha.interfaces import estimator_file

def watch(event, args):
    if event in ("exec", "compile", "pickle.find_class", "os.system", "subprocess.Popen"):
        raise RuntimeError(f"{event} while a file is read")

def read():
    estimator_file.read(path, {x.__name__: x for x in (bb.BBAlphaRegressor, bb.BBAlphaClassifier)})

path, margin = sys.argv[1], int(sys.argv[2])
import bbalpha.tables.transformer, jax.experimental.multihost_utils  # which may be loaded later
read()  # so that imports are not counted
used = 1024 * int(re.search(r"VmSize:\\s*(\\d+) kB", open("/proc/self/status").read())[1])
resource.setrlimit(resource.RLIMIT_AS, (used + margin, used + margin))
sys.addaudithook(watch)
print("ready", flush=True)
def measured():
    tracemalloc.start()
    start, answer = time.perf_counter(), "accepted"
    try:
        read()
    except ValueError as error:
        answer = str(error)
    seconds, (_, peak) = time.perf_counter() - start, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return answer, peak, seconds

for line in sys.stdin:
    # Twice, because a table of the interpreter may happen to grow while a file is read.
    (answer, first, seconds), (_, second, _) = measured(), measured()
    print(json.dumps([answer, min(first, second), seconds]), flush=True)
"""


@pytest.fixture(scope="module")
def read_elsewhere(tmp_path_factory):
    """What another process says of a content, how much it allocates and how long it takes."""
    path = tmp_path_factory.mktemp("forged") / "model.safetensors"
    path.write_bytes(original())
    command = [sys.executable, "-c", READER, str(path), str(2 * len(original()) + ADDRESS_SPACE)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "bufsize": 1}
    with subprocess.Popen(command, **pipes) as reader:
        assert reader.stdout.readline() == "ready\n"

        def read(content):
            path.write_bytes(content)
            reader.stdin.write("\n")
            return json.loads(reader.stdout.readline() or '["the process died", 0, 0]')

        yield read


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and a limit of address space")
@pytest.mark.parametrize("group", GROUPS)
def test_a_mutated_file_is_refused_with_a_sentence_within_twice_its_size(read_elsewhere, group):
    names, failures = [], []
    for name, content in GROUPS[group]():
        message, peak, seconds = read_elsewhere(content)
        limit = 2 * len(content) + OVERHEAD
        names.append(name)
        if not is_sentence(message) or peak > limit or seconds > SECONDS:
            failures.append((name, message, f"{peak} of {limit} bytes", f"{seconds:.1f} s"))
        if group == "false arrays":
            assert "checksum" not in message  # which the forger computed
    assert not failures
    assert len(set(names)) == len(names) >= 25


def test_loading_unpickles_nothing(monkeypatch, path):
    def refuse(*args, **kwargs):
        raise AssertionError("an estimator's file was unpickled")

    regressor().save(path)
    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    assert bb.BBAlphaRegressor.load(path).n_iter_ == 2


def test_a_file_from_before_fits_were_judged_is_read(tmp_path):
    header, metadata, data = parts()
    del metadata["info"]["converged"], metadata["info"]["fall"]
    path = tmp_path / "old.safetensors"
    path.write_bytes(forged(header, metadata, data))
    estimator = bb.BBAlphaClassifier.load(path)
    assert estimator.posterior_.info.converged is False
