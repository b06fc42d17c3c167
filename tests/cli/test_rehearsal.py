"""Facts about the rehearsal: after it, judging a fitted model compiles nothing."""

import warnings

import numpy as np
import pytest

import bbalpha as bb
from bbalpha.cli.rehearsal import rehearsing
from bbalpha.engine.clock import Compiling

INPUTS = np.random.default_rng(0).normal(size=(37, 3))
TARGETS = INPUTS[:, 0] + 1.0


@pytest.mark.parametrize("kind", [bb.BBAlphaRegressor, bb.BBAlphaClassifier])
def test_a_fitted_model_is_judged_by_the_program_of_the_rehearsal(kind):
    targets = TARGETS if kind is bb.BBAlphaRegressor else (TARGETS > 1).astype(int)
    model = kind((7,), activation="softplus", max_epochs=2, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with rehearsing(model, INPUTS, targets):
            model.fit(INPUTS, targets)
    compiling = Compiling()
    bb.judge(model, INPUTS, targets)
    assert compiling.seconds == 0


def test_what_cannot_be_rehearsed_is_left_to_the_fit():
    with rehearsing(bb.BBAlphaRegressor(), INPUTS[:2], TARGETS[:2]):  # too few to be judged
        pass
