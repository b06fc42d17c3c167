"""How an estimator trains: with warnings of its own, and all or nothing."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from bbalpha.convergence import ConvergenceWarning
from bbalpha.fitting import fit
from bbalpha.posterior import Posterior


def quiet_fit(*args: Any, **kwargs: Any) -> Posterior:
    """`fit`, whose warning about convergence the estimator gives in its own words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(*args, **kwargs)


@contextmanager
def all_or_nothing(estimator: Any) -> Iterator[None]:
    """Leave the estimator as it was if the block fails."""
    before = vars(estimator).copy()
    try:
        yield
    except BaseException:
        vars(estimator).clear()
        vars(estimator).update(before)
        raise
