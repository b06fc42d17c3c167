"""ArviZ before and after version 1, which changed how `from_dict` takes its groups."""

import inspect
import warnings
from typing import Any

import numpy as np

from bbalpha.interfaces.needed import check_installed

Groups = dict[str, dict[str, Any]]


def inference_data(groups: Groups, attributes: dict[str, Any]) -> Any:
    """What ArviZ works on: an `InferenceData` in 0.23, a `DataTree` from 1.0 on.

    Args:
        groups: by group and variable, arrays that begin with an axis of draws, except for
            `observed_data`. The draws become one chain.
        attributes: what to note with the posterior.

    Raises:
        ImportError: if ArviZ is missing or too old.
    """
    check_installed("arviz", (0, 23), "to_arviz")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # 0.23 announces 1.0 whenever it is imported
        import arviz
    return call_from_dict(arviz.from_dict, _in_one_chain(groups), attributes)


def call_from_dict(from_dict: Any, groups: Groups, attributes: dict[str, Any]) -> Any:
    """The groups in the form that a version of `from_dict` takes them."""
    if "posterior" in inspect.signature(from_dict).parameters:  # before 1.0
        return from_dict(**groups, posterior_attrs=attributes)
    return from_dict(groups, attrs={"posterior": attributes})


def _in_one_chain(groups: Groups) -> Groups:
    """The groups as arrays with a leading axis of one chain, where there are draws."""
    return {
        group: {
            name: np.asarray(values) if group == "observed_data" else np.asarray(values)[None]
            for name, values in variables.items()
        }
        for group, variables in groups.items()
        if variables
    }
