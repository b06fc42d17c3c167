"""Files of fitted estimators: the posterior's file, with the rest in its metadata as JSON.

So they are read by `Posterior.load` too. Whatever the file says is checked before it is used, and
nothing is allocated by a number that it merely claims.
"""

import inspect
import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bbalpha import model_file
from bbalpha.data import Standardizer
from bbalpha.interfaces.network import shapes_of
from bbalpha.posterior import posterior_of_file


def write(path: str | Path, estimator: Any, table: dict[str, Any] | None = None) -> None:
    """Write a fitted estimator, and how a table was encoded for it if there was one.

    Raises:
        OSError: If the file cannot be written; what was there before stays as it was.
    """
    settings = estimator.get_params(deep=False)
    if not isinstance(settings["random_state"], int | None):
        settings["random_state"] = None  # a generator has moved on; its seed is below
    section = {
        "class": type(estimator).__name__,
        "settings": {name: _plain(value) for name, value in settings.items()},
        "seed": estimator._seed,
        "feature_names": _plain(getattr(estimator, "feature_names_in_", None)),
        "input_units": _units(estimator.input_units_),
        "target_units": _units(estimator.target_units_),
        "targets": estimator._target_facts(),
    }
    posterior = estimator.posterior_
    metadata = posterior.metadata() | {"estimator": section, "table": table}
    model_file.write(path, posterior, metadata)


def read(path: str | Path, classes: Mapping[str, type]) -> tuple[Any, Any]:
    """The estimator in a file, and how a table was encoded for it, not yet checked.

    Args:
        path: The file.
        classes: The classes that it may be of, by name.

    Raises:
        FileNotFoundError: If there is no such file.
        ValueError: If it is damaged, of another version, or not such an estimator.
    """
    arrays, metadata = model_file.read(path)
    name = Path(path).name
    section = metadata.get("estimator")
    if not isinstance(section, dict) or section.get("class") not in tuple(classes):
        found = section.get("class") if isinstance(section, dict) else "a posterior alone"
        raise ValueError(
            f"path must name a saved {' or '.join(classes)}; got {reprlib.repr(found)} in {name}."
        )
    try:
        estimator = _restored(classes[section["class"]], section)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
        raise ValueError(
            f"path must name an intact estimator of bbalpha; got {name}, in which {_told(error)}"
        ) from None
    estimator.posterior_ = posterior_of_file(
        arrays, metadata, path, shapes_of(estimator._sizes()), estimator._new_likelihood()
    )
    estimator.n_iter_ = len(estimator.posterior_.info.energies)
    return estimator, metadata.get("table")


def _restored(kind: type, section: dict[str, Any]) -> Any:
    """The estimator without its posterior."""
    settings = dict(section["settings"])
    expected = set(inspect.signature(kind).parameters)
    if set(settings) != expected:
        odd = sorted(expected.symmetric_difference(settings))[0]
        raise ValueError(f"the setting {odd!r} is missing or unknown.")
    settings["hidden_layer_sizes"] = tuple(settings["hidden_layer_sizes"])
    estimator: Any = kind(**settings)
    estimator._check_settings()
    estimator.input_units_ = _standardizer(section["input_units"])
    estimator.target_units_ = _standardizer(section["target_units"])
    estimator.n_features_in_ = estimator.input_units_.mean.size
    _set_feature_names(estimator, section["feature_names"])
    estimator._restore_targets(section["targets"])
    estimator._seed = _whole(section["seed"])
    estimator._memory, estimator._memory_prior = None, None
    return estimator


def _set_feature_names(estimator: Any, names: Any) -> None:
    if names is None:
        return
    if len(set(names)) != estimator.n_features_in_ or not all(isinstance(n, str) for n in names):
        raise ValueError("feature_names are not one text for each feature.")
    estimator.feature_names_in_ = np.array(names, dtype=object)


def _units(standardizer: Standardizer) -> dict[str, list[float]]:
    return {"mean": standardizer.mean.tolist(), "scale": standardizer.scale.tolist()}


def _standardizer(units: dict[str, list[float]]) -> Standardizer:
    mean, scale = (np.array([float(x) for x in units[name]]) for name in ("mean", "scale"))
    if mean.shape != scale.shape or not mean.size:
        raise ValueError("units have not one mean and one scale for each column.")
    if not (np.isfinite(mean).all() and np.isfinite(scale).all() and (scale > 0).all()):
        raise ValueError("units are not finite or a scale is not positive.")
    return Standardizer(mean, scale)


def _whole(value: Any) -> int:
    if not isinstance(value, int) or not 0 <= value < 2**31:
        raise ValueError(f"the seed is {reprlib.repr(value)}.")
    return value


def _plain(value: Any) -> Any:
    """The value in types that JSON knows."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value


def _told(error: Exception) -> str:
    """What was wrong, in words of ours if the error has any."""
    if isinstance(error, KeyError):
        return f"{reprlib.repr(error.args[0])} is missing."
    text = str(error)
    return text if text.endswith(".") else f"something has a wrong type: {text}."
