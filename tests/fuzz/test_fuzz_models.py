"""A short run of the fuzzer of model files, and files that it once broke."""

from functools import partial

import pytest
from fuzz.fuzz_models import FUZZER, used
from fuzz.model_files import mutated, originals

BROKE = (352, 2721, 6528, 8422)  # numbers of files that loaded and did not predict


def test_mutated_models_are_refused_or_predict_finite_numbers():
    one_kind = partial(mutated, contents=originals()[-1:])  # compiling for all of them takes long
    part = FUZZER._replace(mutated=one_kind).part(0, first=0, end=80)
    assert part["problems"] == []
    assert part["outcomes"]["refused"] > 40
    assert part["outcomes"]["predicts"] > 3


@pytest.mark.parametrize("number", BROKE)
def test_models_that_once_broke_are_refused(tmp_path, number):
    path, done = FUZZER.written(0, number, tmp_path)
    assert used(path, done) == "refused"
