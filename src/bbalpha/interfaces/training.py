"""How an estimator trains: with held-out rows, warnings of its own, and all or nothing."""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.exceptions import ConvergenceWarning as SklearnConvergenceWarning

from bbalpha.convergence import ConvergenceWarning
from bbalpha.data import Dataset
from bbalpha.engine.checks import warn
from bbalpha.engine.layout import Layout
from bbalpha.fitting import fit
from bbalpha.planning import NUM_STEPS
from bbalpha.posterior import FitInfo, Posterior
from bbalpha.stopping import EarlyStopping

# Up to 1,600 rows, half the steps that `fit` takes predict as well; from 3,200 rows on all of them
# are needed (docs/benchmarks.md).
FEWEST_STEPS, NUM_EPOCHS = 5_000, 100


class Rows(NamedTuple):
    """Training data in the units of the network."""

    inputs: Any
    targets: Any
    sample_weight: np.ndarray


def quiet_fit(*args: Any, **kwargs: Any) -> Posterior:
    """`fit`, whose warning about convergence the estimator gives in its own words."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return fit(*args, **kwargs)


def warn_of_ending(info: FitInfo) -> None:
    """Warn, in the words of an estimator, if a fit was interrupted or did not converge."""
    if info.stopped == "interrupted":
        warn(
            f"fit was interrupted after {info.num_steps:,} steps; the estimator holds the "
            "posterior reached so far."
        )
    if info.stopped == "finished" and not info.converged:
        warn(
            f"fit did not converge in {len(info.energies):,} epochs: the energy was still "
            "falling. Raise max_epochs.",
            SklearnConvergenceWarning,
        )


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


def hold_out(estimator: Any, rows: Rows) -> tuple[Rows, EarlyStopping | None]:
    """The rows to train on and, with early stopping, the held-out rows."""
    if not estimator.early_stopping:
        return rows, None
    from sklearn.model_selection import train_test_split  # a tenth of a second, rarely needed

    parts = train_test_split(
        np.arange(len(rows.inputs)),
        test_size=estimator.validation_fraction,
        random_state=estimator._seed,
        stratify=estimator._strata(rows),
    )
    training, held_out = (Rows(*(column[part] for column in rows)) for part in parts)
    data = Dataset(held_out.inputs, held_out.targets)
    rule = EarlyStopping(data, estimator.patience, sample_weight=held_out.sample_weight)
    return training, rule


def epochs_of(estimator: Any, num_rows: int) -> int | None:
    """The number of epochs: the given one or, at the default rate, 100 of 5,000 to 10,000 steps."""
    if estimator.max_epochs is not None or estimator.learning_rate is not None:
        return estimator.max_epochs
    num_batches = -(-num_rows // estimator.batch_size)
    fewest, most = (-(-steps // num_batches) for steps in (FEWEST_STEPS, NUM_STEPS))
    return max(fewest, min(NUM_EPOCHS, most))


def check_resumable(random_state: Any, checkpoint: Any) -> None:
    """Raise if a fit could not go on from its checkpoint, because its seed would be another."""
    if checkpoint is not None and random_state is None:
        raise ValueError(
            "random_state must be set if checkpoint is given, so that the same call goes on; "
            "got random_state=None."
        )


def check_continues(estimator: Any, last: Posterior) -> None:
    """Raise if the last posterior belongs to another likelihood or network."""
    network = estimator._network()
    expected = estimator._new_likelihood(np.zeros(network.num_outputs))
    if jax.tree.structure(last.hyperparams) != jax.tree.structure(expected):
        found = getattr(last.hyperparams, "likelihood", last.hyperparams)
        raise ValueError(
            "likelihood must be the same as in the last fit to continue it; got "
            f"likelihood={estimator.likelihood!r} after a {type(found).__name__}."
        )
    if last.layout != Layout.of(network.shapes()):
        shapes = [leaf.shape for leaf in jax.tree.leaves(last.mean)]
        raise ValueError(
            "hidden_layer_sizes and prior must be the same as in the last fit to continue it; got "
            f"hidden_layer_sizes={estimator.hidden_layer_sizes!r} and prior={estimator.prior!r} "
            f"after arrays of shapes {shapes}."
        )
