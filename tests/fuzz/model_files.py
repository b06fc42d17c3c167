"""Good model files, and ways to change them.

Small models are taken apart and changed at random: bytes, header, settings, texts, numbers, shapes
and types of arrays. The checksum is computed again, as a forger would.
"""

import copy
import hashlib
import json
import struct
import tempfile
import warnings
from functools import cache
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pandas as pd
from fuzz.bounded import damaged

import bbalpha as bb
from bbalpha.cli.saved import Model, write_model
from bbalpha.tables import Encoder, Target

BLANK = "0" * 64  # in place of the checksum while it is computed
INPUTS = ["size", "town", "sold"]

NUMBERS = (
    *(0, -1, 1, 2, 20, 1000, 10**6, 10**6 + 1, 10**8, 2**31 - 1, 2**31, 2**63, 10**30, 10**400),
    *(0.0, -0.0, 0.5, -1.5, 1e-30, 5e-324, 1e30, 1e39, 1e154, 1e308, -1e308),
    *(float("nan"), float("inf"), -float("inf")),
)
TEXTS = (
    *("", "x", "auto", "=cmd|' /C calc'!A0", "\x1b[2J\x1b[31mred", "\x9b2J", "abc\u202efed", "\0"),
    *("line\nline", "\ud800", "x" * 1000, "😀" * 50, "DiagonalGaussian", "FullGaussian"),
    *("LowRankGaussian", "tanh", "poisson", "student_t", "gaussian", "negative_binomial", "paper"),
)
OTHERS = (None, True, False, [], {}, [[]], [None], {"a": 1})
ARRAY_VALUES = (
    *(0.0, 1.0, -1.0, 20.0, 90.0, 200.0, -200.0, 1e4, 1e10, -1e10, 1e18, 1e30, 3e38, -3e38, 1e-45),
    *(float("nan"), float("inf"), -float("inf")),
)
TYPES = ("F64", "F32", "F16", "BF16", "I64", "I32", "U8", "BOOL", "F8_E4M3", "C64")


def untrained(estimator, inputs, targets):
    """The estimator as after a fit without steps, which compiles nothing."""
    X, y = estimator._validated(inputs, targets, reset=True)
    rows = estimator._rows(X, y, None, new_units=True)
    level, network = estimator._level(rows), estimator._network()
    layout = bb.Layout.of(network.shapes())
    mean = layout.flatten(network.start(level, seed=7))
    estimator.posterior_ = bb.Posterior(
        q=bb.DiagonalGaussian(mean, mean - 4),
        prior=network.prior_around(level, 1.0),
        hyperparams=estimator._new_likelihood(level),
        alpha=jnp.array(0.5),
        num_data=jnp.array(float(len(X))),
        energy=jnp.array(12.5),
        layout=layout,
        info=bb.FitInfo((3.5, 2.5), ((1, -2.0),), 8, 0.25),
    )
    estimator._seed, estimator.n_iter_ = 7, 2
    estimator._memory, estimator._memory_prior = None, None
    return estimator


@cache
def table():
    """A table of all kinds of columns, with a number, a count and a class to predict."""
    stream = np.random.RandomState(0)
    size = stream.uniform(40, 200, 30)
    return pd.DataFrame(
        {
            "size": size,
            "town": np.where(stream.rand(30) < 0.5, "here", "there"),
            "sold": pd.date_range("2020-01-01", periods=30).strftime("%Y-%m-%d"),
            "price": 2 * size + stream.normal(0, 10, 30),
            "visits": stream.poisson(3.0, 30),
            "state": np.where(size > 120, "kept", "lost"),
        }
    )


@cache
def originals():
    """The content of good files: with and without a table, of every likelihood."""
    frame = table()
    inputs, draws = frame[INPUTS], {"num_predictive_samples": 20}
    numbers = np.column_stack([frame["size"], frame["visits"]])
    regressor, classifier = bb.BBAlphaRegressor, bb.BBAlphaClassifier
    saved = [
        untrained(regressor((3,), **draws), numbers, frame["price"]),
        untrained(regressor((), likelihood="student_t", **draws), numbers, numbers),
        untrained(regressor((2, 2), likelihood="gaussian", **draws), numbers, frame["price"]),
        untrained(regressor((), likelihood="poisson", **draws), numbers, frame["visits"]),
        untrained(regressor((), likelihood="negative_binomial", **draws), inputs, frame["visits"]),
        untrained(classifier((3,), "tanh", **draws), inputs, frame["town"]),
        untrained(classifier((), likelihood="probit", **draws), numbers, frame["state"]),
    ]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.safetensors")
        contents = []
        for estimator in saved:
            estimator.save(path)
            contents.append(path.read_bytes())
        for kind, name in ((regressor, "price"), (classifier, "state")):
            encoder, target = Encoder.learn(inputs), Target.learn(frame, name)
            model = untrained(kind((), **draws), encoder.encode(inputs), frame[name].to_numpy())
            write_model(path, Model(model, encoder, target, ()))
            contents.append(path.read_bytes())
    return contents


class File:
    """A model file in parts that can be changed: header, metadata and bytes of the arrays."""

    def __init__(self, content):
        length = int.from_bytes(content[:8], "little")
        self.header = json.loads(content[8 : 8 + length])
        self.metadata = json.loads(self.header.pop("__metadata__")["bbalpha"])
        self.data = bytearray(content[8 + length :])

    def content(self):
        words = {"bbalpha": json.dumps(self.metadata), "sha256": BLANK}
        header = {"__metadata__": words, **self.header}
        text = json.dumps(header, separators=(",", ":")).encode()
        content = struct.pack("<Q", len(text)) + text + bytes(self.data)
        return resealed(content)

    def array(self, name):
        """The bytes of an array as numbers that can be changed in place."""
        entry = self.header[name]
        view = memoryview(self.data)[slice(*entry["data_offsets"])]
        return np.frombuffer(view, np.float32)


def resealed(content):
    digest = hashlib.sha256(content).hexdigest()
    return content.replace(BLANK.encode(), digest.encode(), 1)


def mutated(seed, number, contents=None):
    """The name of a mutated file, its content and what was done, from these good ones or all."""
    stream = np.random.default_rng([seed, number])
    contents = originals() if contents is None else contents
    return "model.safetensors", *changed(contents[stream.integers(len(contents))], stream)


def changed(content, stream):
    """The content of a file after random changes, and their names."""
    if stream.random() < 0.15:
        return damaged(content, stream), ["damaged"]
    file, done = File(content), []
    for _ in range(stream.choice([1, 1, 1, 2, 3])):
        change = stream.choice(CHANGES, p=WEIGHTS)
        done.append(change.__name__)
        try:
            change(file, stream)
        except (KeyError, TypeError, ValueError, IndexError):
            done[-1] += " (no effect)"  # an earlier change took away what this one changes
    content = file.content()
    if stream.random() < 0.05:
        blank = content.replace(checksum_of(content), BLANK.encode(), 1)
        return resealed(damaged(blank, stream)), [*done, "damaged and sealed"]
    return content, done


def checksum_of(content):
    start = content.index(b'"sha256":"') + len(b'"sha256":"')
    return content[start : start + 64]


def change_value(file, stream):
    """Another value in a random place of the metadata."""
    owner, key = random_place(file.metadata, stream)
    owner[key] = other_value(owner[key], stream)


def change_setting(file, stream):
    """Another value of a setting, or of something else that an estimator says of itself."""
    section = file.metadata["estimator"]
    owner = section[stream.choice(["settings", "input_units", "target_units", "targets"])]
    key = str(stream.choice(sorted(owner)))
    if isinstance(owner[key], list) and owner[key] and stream.random() < 0.7:
        owner, key = owner[key], int(stream.integers(len(owner[key])))
    owner[key] = other_value(owner[key], stream)


def remove_value(file, stream):
    owner, key = random_place(file.metadata, stream)
    del owner[key]


def add_value(file, stream):
    """One more entry of a list or of an object."""
    owner, key = random_place(file.metadata, stream)
    value = copy.deepcopy(owner[key])
    if isinstance(owner, list):
        owner.insert(int(stream.integers(len(owner) + 1)), value)
    else:
        owner[str(stream.choice(TEXTS[:4]))] = value


def swap_values(file, stream):
    (one, a), (other, b) = (random_place(file.metadata, stream) for _ in range(2))
    one[a], other[b] = copy.deepcopy(other[b]), copy.deepcopy(one[a])


def change_array(file, stream):
    """One number of an array, or all of them, replaced or multiplied."""
    array = file.array(str(stream.choice(sorted(file.header))))
    value = np.float32(stream.choice(ARRAY_VALUES))
    chosen = slice(None) if stream.random() < 0.5 else stream.integers(array.size)
    with np.errstate(all="ignore"):
        array[chosen] = array[chosen] * value if stream.random() < 0.3 else value


def change_entry(file, stream):
    """Another shape, type or place of an array, or another name."""
    name = str(stream.choice(sorted(file.header)))
    entry = file.header[name]
    match stream.integers(6):
        case 0:
            entry["dtype"] = str(stream.choice(TYPES))
        case 1:
            entry["shape"] = other_shape(entry["shape"], stream)
        case 2:
            offset = int(stream.choice([-4, 4, 2**40, -(2**40)]))
            entry["data_offsets"][stream.integers(2)] += offset
        case 3:
            del file.header[name]
        case 4:
            file.header[str(stream.choice(TEXTS)).replace("\ud800", "x")] = file.header.pop(name)
        case _:
            other = str(stream.choice(sorted(file.header)))
            file.header[name], file.header[other] = file.header[other], file.header[name]


def widen_array(file, stream):
    """An array of another type with the same numbers, and the bytes that it needs."""
    name = str(stream.choice(sorted(file.header)))
    kind, dtype = [("F64", np.float64), ("F16", np.float16), ("I32", np.int32)][stream.integers(3)]
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        values = file.array(name).astype(dtype).tobytes()
    pieces, start = [], 0
    for other, entry in file.header.items():
        piece = bytes(file.data[slice(*entry["data_offsets"])]) if other != name else values
        entry["data_offsets"] = [start, start + len(piece)]
        start += len(piece)
        pieces.append(piece)
    file.header[name]["dtype"] = kind
    file.data = bytearray(b"".join(pieces))


CHANGES = [
    *(change_value, change_setting, change_array, change_entry, widen_array),
    *(remove_value, add_value, swap_values),
]
WEIGHTS = [0.22, 0.27, 0.27, 0.06, 0.03, 0.05, 0.05, 0.05]


def random_place(tree, stream):
    """A list or object somewhere in the tree, and an index or key of it."""
    owner, key = tree, str(stream.choice(sorted(tree)))
    while isinstance(owner[key], list | dict) and owner[key] and stream.random() < 0.85:
        owner = owner[key]
        keys = sorted(owner) if isinstance(owner, dict) else range(len(owner))
        key = keys[stream.integers(len(keys))]
    return owner, key


def other_value(value, stream):
    chance = stream.random()
    if isinstance(value, int | float) and not isinstance(value, bool) and chance < 0.3:
        return value * (-1, 2, 10, 1e10, 1e-10)[stream.integers(5)]
    if chance < 0.65:
        return NUMBERS[stream.integers(len(NUMBERS))]
    if chance < 0.85:
        return TEXTS[stream.integers(len(TEXTS))]
    return copy.deepcopy(OTHERS[stream.integers(len(OTHERS))])


def other_shape(shape, stream):
    size = int(np.prod(shape))
    shapes = ([size], [1, size], [size, 1], [size + 1], [0, 2**40], [2**31, 2**31], [-1], [], [1.5])
    return list(shapes[stream.integers(len(shapes))])
