"""Files of fitted estimators: a posterior file with the rest of the estimator as JSON metadata.

`Posterior.load` can read them too. Everything in a file is checked before it is used, and no memory
is allocated on the strength of a size that the file merely claims. As a last check, writing the
loaded estimator must reproduce exactly the metadata that were read.
"""

import inspect
import math
import reprlib
from collections.abc import Mapping
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from bbalpha.data import Standardizer
from bbalpha.engine.layout import Layout
from bbalpha.files import model_file
from bbalpha.files.posterior_file import (
    DISTRIBUTIONS,
    check_finite_leaves,
    leaves_of,
    metadata_of,
    posterior_of_file,
)
from bbalpha.files.wording import one_line
from bbalpha.interfaces.alpha_curve import AlphaCurve
from bbalpha.interfaces.calibration import Calibration
from bbalpha.interfaces.finite import check_predicts, has_variance
from bbalpha.interfaces.inputs import InputUnits
from bbalpha.interfaces.limits import STACKED, TUNED
from bbalpha.interfaces.settings import COUNTS, check_draws, check_settings
from bbalpha.interfaces.spread import with_factor
from bbalpha.interfaces.stacking import (
    is_stacked,
    numbered,
    of_members,
    strongest,
    weights_of,
)
from bbalpha.mixtures import GaussianMixture

INPUT_UNITS = ("mean", "scale", "lower", "upper")
TARGET_UNITS = ("mean", "scale")
ROUNDING = 1e-5  # of weights in 32 bits
ORTHOGONAL = 1e-6  # how far products of axes may differ from those of a rotation
FLAGS = ("calibrate", "early_stopping", "warm_start", "verbose")
LABEL_BYTES = 2**24  # for an array of text, in which every label takes the space of the longest
LETTER_BYTES = 4  # per character of such an array

# Errors that a value of the wrong kind can cause while it is being checked.
ERRORS = (AttributeError, LookupError, TypeError, ValueError, OverflowError)


def write(path: str | Path, estimator: Any, table: dict[str, Any] | None = None) -> None:
    """Write a fitted estimator and, if it was fitted to a table, the encoding of the table.

    Raises:
        OSError: If the file cannot be written; an existing file is then left as it was.
        ValueError: If a setting or a label is neither a number nor text.
    """
    section, posterior = _section(estimator), estimator.posterior_
    try:
        size = strongest(estimator, posterior).q.mean.shape
        _check_size(_restored(type(estimator), section), size)
    except ERRORS as error:
        raise ValueError(
            f"this {type(estimator).__name__} cannot be saved: {_problem(error)}"
        ) from None
    model_file.write(
        path, posterior, metadata_of(posterior) | {"estimator": section, "table": table}
    )


def read(path: str | Path, classes: Mapping[str, type]) -> tuple[Any, Any]:
    """The estimator in a file, and the encoding of its table, which is not checked yet.

    Args:
        path: The file.
        classes: The allowed classes of the estimator, by name.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is damaged, has another format version, or holds no such estimator.
    """
    arrays, metadata = model_file.read(path)
    section = metadata.get("estimator")
    if not isinstance(section, dict) or section.get("class") not in tuple(classes):
        found = section.get("class") if isinstance(section, dict) else None
        described = "only a posterior" if found is None else f"a {one_line(found)}"
        raise ValueError(f"{Path(path).name} holds {described}, not a {' or '.join(classes)}.")
    try:
        estimator = _restored(classes[section["class"]], section)
        _check_posterior(arrays, metadata)
        shapes, likelihood = _expected(estimator, arrays, metadata)
        _check_leaves(shapes, metadata.get("params"))
    except ERRORS as error:
        raise model_file.invalid(path, _problem(error)) from None
    estimator.posterior_ = posterior_of_file(arrays, metadata, path, shapes, likelihood)
    info = {"converged": False, "fall": 0.0} | metadata["info"]  # older files lack them
    if not _same(metadata_of(estimator.posterior_)["info"], info):
        raise model_file.invalid(path, f"info is {reprlib.repr(metadata['info'])}")
    estimator.n_iter_ = len(estimator.posterior_.info.energies)
    try:
        _check_chosen(estimator)
        for name in ("hyperparams", "prior"):
            check_finite_leaves(getattr(estimator.posterior_, name), f".{name}")
        check_predicts(estimator)
    except ValueError as error:
        raise model_file.invalid(path, _problem(error)) from None
    return estimator, metadata.get("table")


def _section(estimator: Any) -> dict[str, Any]:
    """What a file says about an estimator in addition to its posterior."""
    settings = {name: _plain(x) for name, x in estimator.get_params(deep=False).items()}
    settings |= {name: bool(settings[name]) for name in FLAGS}
    seed = settings["random_state"]  # a generator has moved on; the seed it gave is below
    settings["random_state"] = int(seed) if isinstance(seed, int) else None
    encoder, curve = estimator.encoder_, estimator.alpha_curve_
    calibration = estimator.calibration_
    found = {} if curve is None else {"alpha_curve": curve.to_json()}
    found |= {} if calibration is None else {"calibration": calibration.to_json()}
    return found | {
        "class": type(estimator).__name__,
        "settings": settings,
        "seed": estimator._seed,
        "encoder": None if encoder is None else encoder.encoder_.to_json(),
        "feature_names": _plain(getattr(estimator, "feature_names_in_", None)),
        "input_units": _units(estimator.input_units_, *INPUT_UNITS, "axes"),
        "target_units": _units(estimator.target_units_, *TARGET_UNITS),
        "targets": estimator._target_facts(),
    }


def _restored(kind: type, section: dict[str, Any]) -> Any:
    """The estimator without its posterior."""
    estimator: Any = kind(**_settings(kind, section["settings"]))
    check_settings(estimator)
    columns = _columns(section["input_units"], *INPUT_UNITS)
    axes = _axes(section["input_units"]["axes"], len(columns[0]))
    estimator.input_units_ = InputUnits(*columns, axes=axes)
    estimator.target_units_ = Standardizer(*_columns(section["target_units"], *TARGET_UNITS))
    if not has_variance(estimator.target_units_.scale):
        raise ValueError("the scale of the targets is not between 1e-153 and 1e153.")
    _set_encoder(estimator, section["encoder"])
    _set_feature_names(estimator, section["feature_names"])
    _check_targets(estimator, section["targets"])
    estimator._restore_targets(section["targets"])
    estimator._seed = _whole("seed", section["seed"], 2**31)
    estimator._memory, estimator._memory_prior = None, None
    curve = section.get("alpha_curve")
    estimator.alpha_curve_ = None if curve is None else AlphaCurve.from_json(curve)
    calibration = section.get("calibration")
    if calibration is not None:
        estimator.calibration_ = Calibration.from_json(calibration)
    expected = _section(estimator)
    for name in sorted(section.keys() | expected.keys()):
        if name not in expected or not _same(section[name], expected[name]):
            raise ValueError(f"{name} is {reprlib.repr(section[name])}.")
    return estimator


def _settings(kind: type, found: Any) -> dict[str, Any]:
    """The settings, if they have the names and kinds that the class expects."""
    expected = inspect.signature(kind).parameters
    settings = _dictionary("settings", found).copy()
    if set(settings) != set(expected):
        odd = sorted(set(expected).symmetric_difference(settings))[0]
        raise ValueError(f"the setting {odd!r} is missing or unknown.")
    for name, parameter in expected.items():
        if not _is_like(settings[name], parameter.default):
            raise ValueError(f"{name} is {reprlib.repr(settings[name])}.")
    if not (settings["alpha"] in ("auto", TUNED, STACKED) or _is_finite(settings["alpha"])):
        raise ValueError(f"alpha is {reprlib.repr(settings['alpha'])}.")
    if not (settings["learn_prior"] == "auto" or isinstance(settings["learn_prior"], bool)):
        raise ValueError(f"learn_prior is {reprlib.repr(settings['learn_prior'])}.")
    if settings["random_state"] is not None:
        _whole("random_state", settings["random_state"], 2**32)
    sizes = settings["hidden_layer_sizes"]
    if isinstance(sizes, list):
        settings["hidden_layer_sizes"] = tuple(sizes)
    return settings


def _is_like(value: Any, default: Any) -> bool:
    """Whether a setting is a flag, a number or None, as its default requires."""
    if value is None and isinstance(default, str):
        return True  # left to `check_settings`
    if value is None or isinstance(default, bool):
        return type(value) is type(default)
    if default is None or isinstance(default, int | float):
        return _is_number(value) and (isinstance(value, float) or abs(value) < 2**63)
    return True


def _check_targets(estimator: Any, facts: Any) -> None:
    """Raise if labels or counts have units, or if labels are too long for an array."""
    has_labels, units = "classes" in _dictionary("targets", facts), estimator.target_units_
    if has_labels and units.mean.size > 1:
        raise ValueError("target_units has several columns, although labels have one.")
    chosen = facts.get("likelihood", estimator.likelihood)
    is_plain = has_labels or chosen in COUNTS
    if is_plain and not ((units.mean == 0).all() and (units.scale == 1).all()):
        raise ValueError("target_units is set, although labels and counts have no units.")
    if has_labels and facts.get("kind") == "U":
        labels = facts["classes"]
        longest = max(map(len, labels), default=0)
        if LETTER_BYTES * longest * len(labels) > LABEL_BYTES:
            raise ValueError(f"classes has labels that are too long: up to {longest} characters.")


def _expected(
    estimator: Any, arrays: dict[str, np.ndarray], metadata: dict[str, Any]
) -> tuple[Any, Any]:
    """The shapes of the parameters and the likelihood that the file should hold."""
    network = estimator._network()
    likelihood = estimator._new_likelihood(np.zeros(network.num_outputs))
    if any(name.endswith(".log_factor") for name in arrays):
        likelihood = with_factor(likelihood, 0.0) or likelihood
    if metadata["q"] != GaussianMixture.__name__:
        _check_size(estimator, arrays.get(".q.mean", np.zeros(())).shape[-1:])
        return network.shapes(), likelihood
    means = arrays.get(".q.means", np.zeros(()))
    is_numbered = any(name.startswith(".hyperparams.each") for name in arrays)
    found = means.shape[-1:] if not is_numbered else tuple(size - 1 for size in means.shape[-1:])
    _check_size(estimator, found)
    if not is_numbered:
        return network.shapes(), likelihood
    return numbered(network.shapes()), of_members(likelihood, len(means))


def _check_size(estimator: Any, found: tuple[int, ...]) -> None:
    """Raise unless the network has as many weights as the posterior."""
    expected = estimator._network().size
    if found != (expected,):
        raise ValueError(
            f"the network has {expected} weights and biases, but .q.mean has shape {found}."
        )
    check_draws(estimator.num_predictive_samples, expected)


def _check_posterior(arrays: dict[str, np.ndarray], metadata: dict[str, Any]) -> None:
    """Raise if a distribution is not one of ours or a number is not finite."""
    for field in ("q", "prior"):
        if metadata.get(field) not in DISTRIBUTIONS:
            raise ValueError(f"{field} is {reprlib.repr(metadata.get(field))}.")
    for name, array in arrays.items():
        if name != ".energy" and not np.isfinite(array).all():  # NaN after an interrupted fit
            raise ValueError(f"{name} is not finite.")


def _check_leaves(shapes: Any, found: Any) -> None:
    """Raise unless the leaves are those of the network."""
    if not _same(found, leaves_of(Layout.of(shapes))):
        raise ValueError(f"params is {reprlib.repr(found)}.")


def _set_encoder(estimator: Any, described: Any) -> None:
    """Restore the encoder, if there is one, and the number of columns that it takes."""
    num_features = estimator.input_units_.mean.size
    estimator.encoder_, estimator.n_features_in_ = None, num_features
    if described is None:
        return
    from bbalpha.tables import Encoder  # needs pandas and pyarrow
    from bbalpha.tables.transformer import TableEncoder

    encoder = Encoder.from_json(described)
    if len(encoder.feature_names) != num_features:
        raise ValueError(
            f"encoder makes {len(encoder.feature_names)} features for {num_features} inputs."
        )
    estimator.encoder_ = TableEncoder.from_encoder(encoder)
    estimator.n_features_in_ = estimator.encoder_.n_features_in_


def _set_feature_names(estimator: Any, names: Any) -> None:
    if names is None:
        return
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise ValueError("feature_names is not a list of texts.")
    if len(names) != estimator.n_features_in_:
        raise ValueError(
            f"feature_names has {len(names)} names for {estimator.n_features_in_} features."
        )
    estimator.feature_names_in_ = np.array(names, dtype=object)


def _units(units: Any, *names: str) -> dict[str, list]:
    return {name: getattr(units, name).tolist() for name in names}


def _columns(units: Any, *names: str) -> list[np.ndarray]:
    """The mean and scale of each column, and limits that contain the mean."""
    columns = [_dictionary("units", units)[name] for name in names]
    if not all(isinstance(x, list) and x and all(map(_is_number, x)) for x in columns):
        raise ValueError("the units are not lists of numbers.")
    mean, scale, *limits = arrays = [np.array(column, float) for column in columns]
    if len({array.shape for array in arrays}) > 1:
        raise ValueError("the units do not have the same number of columns.")
    if not (all(np.isfinite(array).all() for array in arrays) and (scale > 0).all()):
        raise ValueError("the units are not finite, or a scale is not positive.")
    if limits and not ((limits[0] <= mean) & (mean <= limits[1])).all():
        raise ValueError("the limits of the inputs do not contain the mean.")
    return arrays


def _axes(found: Any, num_columns: int) -> np.ndarray:
    """The principal axes of the inputs: a rotation, or one empty list per column."""
    if not isinstance(found, list) or not all(isinstance(row, list) for row in found):
        raise ValueError("the axes are not lists of numbers.")
    if not all(_is_finite(value) and isinstance(value, float) for row in found for value in row):
        raise ValueError("the axes are not finite numbers.")
    if len(found) != num_columns or {len(row) for row in found} not in ({0}, {num_columns}):
        raise ValueError(f"the axes do not have {num_columns} rows and columns.")
    axes = np.array(found, float).reshape(num_columns, -1)
    if axes.size and not np.abs(axes.T @ axes - np.eye(num_columns)).max() < ORTHOGONAL:
        raise ValueError("the axes are not orthogonal.")
    return axes


def _check_chosen(estimator: Any) -> None:
    """Raise unless the power of the posterior is the one that `fit` would choose by the curve."""
    curve, alpha = estimator.alpha_curve_, float(estimator.posterior_.alpha)
    if is_stacked(estimator.posterior_):
        shares = [share for share in curve.weights if share] if curve is not None else []
        weights = weights_of(estimator.posterior_)
        if len(shares) != len(weights) or not np.allclose(shares, weights, atol=ROUNDING):
            raise ValueError("alpha_curve does not have the weights of the stacked posterior.")
    elif curve is not None and curve.weights:
        if not (max(curve.weights) == 1 and curve.alphas[curve.weights.index(1.0)] == alpha):
            raise ValueError(f"alpha_curve stacks several powers, but alpha is {alpha:g}.")
    elif curve is not None and curve.chosen != alpha:
        raise ValueError(f"alpha_curve chooses {curve.chosen:g}, but alpha is {alpha:g}.")


def _dictionary(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{name} is {reprlib.repr(value)}.")
    return value


def _whole(name: str, value: Any, end: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < end:
        raise ValueError(f"{name} is {reprlib.repr(value)}.")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _is_finite(value: Any) -> bool:
    return _is_number(value) and math.isfinite(value)


def _same(value: Any, other: Any) -> bool:
    """Whether both look the same in a file: NaN equals NaN, a list a tuple; True is not 1.0."""
    if isinstance(value, dict) and isinstance(other, dict):
        return value.keys() == other.keys() and all(
            _same(value[name], other[name]) for name in value
        )
    if isinstance(value, list | tuple) and isinstance(other, list | tuple):
        return len(value) == len(other) and all(map(_same, value, other))
    return type(value) is type(other) and (value == other or (value != value and other != other))


def _plain(value: Any) -> Any:
    """The value in types that JSON knows, if possible."""
    if hasattr(value, "tolist"):  # arrays and numbers of numpy and jax
        return value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, Real) and not isinstance(value, Integral):
        return float(value)
    return value


def _problem(error: Exception) -> str:
    """The problem as a sentence; messages of our own errors end with a period."""
    if isinstance(error, KeyError):
        return f"{reprlib.repr(error.args[0])} is missing or unknown."
    text = str(error)
    text = text if text.endswith(".") else f"a value is wrong: {text}"
    return f"{one_line(text).rstrip('.')}."
