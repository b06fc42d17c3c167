"""A rehearsal: the programs that judge a model are compiled while the model is trained."""

import contextlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.base import clone

from bbalpha.distributions import DiagonalGaussian
from bbalpha.engine.arrays import on_device
from bbalpha.engine.clock import lowered
from bbalpha.engine.epochs import run_steps
from bbalpha.engine.layout import Layout
from bbalpha.interfaces.left_out import chosen_rows, rows_of
from bbalpha.interfaces.without import predicted_without
from bbalpha.posterior import Posterior

LONGEST_WAIT = 60.0  # seconds for the steps of training to be lowered


@contextmanager
def rehearsing(estimator: Any, inputs: np.ndarray, targets: np.ndarray) -> Iterator[None]:
    """Score a model like the one that the block will train, in a thread; wait for it at the end.

    The thread waits until the steps of training are being compiled, because two threads of Python
    share one core and training comes first. Only compiled programs remain of the score. A failure
    has no consequence, except that they are compiled later.
    """
    try:
        model = _untrained(estimator, inputs, targets)
        rows = rows_of(model, *chosen_rows(model, inputs, targets)[1:])
    except ValueError:  # which training will explain
        yield
        return

    is_lowered, is_over = lowered(run_steps.function.__name__), threading.Event()

    def rehearse() -> None:
        is_lowered.wait(LONGEST_WAIT)
        with contextlib.suppress(Exception):
            if not is_over.is_set():
                predicted_without(model, rows)

    thread = threading.Thread(target=rehearse, daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        is_lowered.set()  # training may have failed before
        thread.join()


def _untrained(estimator: Any, inputs: np.ndarray, targets: np.ndarray) -> Any:
    """An estimator with a posterior of the same structure as if it had been fitted."""
    model: Any = clone(estimator)
    X, y = model._validated(inputs, targets, reset=True)
    model._choose_likelihood(y)
    rows = model._rows(X, y, None, new_units=True)
    layout = Layout.of(model._network().shapes())
    zeros, scalar = on_device(np.zeros(layout.size)), on_device(np.zeros(()))
    q = DiagonalGaussian(zeros, zeros)
    likelihood = model._new_likelihood(model._level(rows))
    model.posterior_ = Posterior(q, q, likelihood, scalar, scalar, scalar, layout)
    model._seed = 0
    return model
