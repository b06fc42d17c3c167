"""The two forms of `from_dict`: that of ArviZ 0.23, and that of 1.x, which is arviz-base's own.

ArviZ 1.x needs Python 3.12, but takes `from_dict` from arviz-base, which can be installed here.
"""

import importlib.metadata

import numpy as np
import pytest

from bbalpha.interfaces.inference_data import call_from_dict, inference_data

GROUPS = {
    "posterior": {"mean": np.arange(8.0).reshape(1, 4, 2)},
    "log_likelihood": {"y": np.zeros((1, 4, 3))},
    "observed_data": {"y": np.ones(3)},
}


def test_before_version_1_groups_are_arguments():
    found = {}

    def from_dict(posterior=None, *, posterior_attrs=None, **groups):
        found.update(groups, posterior=posterior, attributes=posterior_attrs)

    call_from_dict(from_dict, GROUPS, {"alpha": 0.5})
    assert found == GROUPS | {"attributes": {"alpha": 0.5}}


def test_from_version_1_on_groups_are_one_dictionary_and_a_tree_comes_back():
    arviz_base = pytest.importorskip("arviz_base")
    found = call_from_dict(arviz_base.from_dict, GROUPS, {"alpha": 0.5})
    assert type(found).__name__ == "DataTree"
    assert sorted(found.children) == sorted(GROUPS)
    assert found["posterior"]["mean"].dims[:2] == ("chain", "draw")
    np.testing.assert_array_equal(found["posterior"]["mean"].values, GROUPS["posterior"]["mean"])
    assert found["observed_data"]["y"].shape == (3,)
    assert found["posterior"].attrs["alpha"] == 0.5


def test_a_missing_or_old_arviz_gets_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.17.0")
    with pytest.raises(
        ImportError, match=r"to_arviz needs arviz 0\.23 or newer; got 0\.17\.0: pip"
    ):
        inference_data(GROUPS, {})
