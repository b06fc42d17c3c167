"""Whatever fails while a model is written, the old file or the new one is there, and no other."""

import re

import numpy as np
import pytest
from problems.faults import FAULTS, Killed, every_fault

from bbalpha.files import model_file
from bbalpha.files.atomic import check_writable

OLD, NEW = ({"a": np.arange(number)} for number in (3.0, 5.0))


def content_of(path):
    """The number of elements in a file, which is whole."""
    arrays, _ = model_file.read(path)
    return arrays["['a']"].size


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_fault_at_any_call_leaves_the_old_file_or_the_new_one(tmp_path, fault):
    path, found = tmp_path / "m.safetensors", set()
    for raised, calls in every_fault(
        fault,
        lambda: model_file.write(path, OLD, {}),
        lambda: model_file.write(path, NEW, {}),
    ):
        found |= set(calls)
        size = content_of(path)
        assert size == 5 or (size == 3 and raised is not None)
        if isinstance(raised, OSError):
            assert re.fullmatch(rf"{path} cannot be written: .+ (device|error)\.", str(raised))
        if fault is not Killed:
            assert list(tmp_path.iterdir()) == [path]
        check_writable(path)  # as the next command does at its start
        assert list(tmp_path.iterdir()) == [path]
        assert content_of(path) == size
    assert raised is None
    assert size == 5
    assert found >= {"open", "write", "chmod", "fsync", "replace"}


def test_a_kill_at_any_call_leaves_no_file_or_a_whole_one(tmp_path):
    path = tmp_path / "m.safetensors"
    for _ in every_fault(
        Killed,
        lambda: path.unlink(missing_ok=True),
        lambda: model_file.write(path, NEW, {}),
    ):
        check_writable(path)
        assert list(tmp_path.iterdir()) in ([], [path])
        assert not path.exists() or content_of(path) == 5
