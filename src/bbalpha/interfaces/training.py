"""How an estimator calls `fit`: rows held out, its own warnings, and no change after a failure."""

import dataclasses
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import numpy as np
from sklearn.exceptions import ConvergenceWarning as SklearnConvergenceWarning

from bbalpha.convergence import ConvergenceWarning
from bbalpha.data import Dataset
from bbalpha.distributions import CappedGaussian, Distribution
from bbalpha.engine import threefry
from bbalpha.engine.batches import padded_length
from bbalpha.engine.checks import warn
from bbalpha.engine.layout import Layout
from bbalpha.engine.optimizers import adam
from bbalpha.fitting import fit
from bbalpha.interfaces.network import as_wide_as, log_likelihood_of
from bbalpha.interfaces.settings import check_draws
from bbalpha.interfaces.spread import as_fitted
from bbalpha.interfaces.stacking import strongest
from bbalpha.planning import NUM_STEPS
from bbalpha.posterior import FitInfo, Posterior
from bbalpha.stopping import EarlyStopping, reason_of_fall

# Up to 1,600 rows, half of the default steps of `fit` predict as well; from 3,200 rows on, all of
# them are needed (docs/benchmarks.md).
FEWEST_STEPS, NUM_EPOCHS = 5_000, 100


class Rows(NamedTuple):
    """Training data in the units of the network."""

    inputs: Any
    targets: Any
    sample_weight: np.ndarray


@dataclass(frozen=True)
class Training:
    """The fit of an estimator to some rows, at any power and from any start.

    Attributes:
        estimator: The estimator that provides the settings, the units and the seed.
        rows: The rows to learn from.
        early_stopping: The stopping rule, which has the held-out rows, or None.
        prior: The prior; by default the one in the settings.
    """

    estimator: Any
    rows: Rows
    early_stopping: EarlyStopping | None
    prior: Distribution | None

    @classmethod
    def of(cls, estimator: Any, rows: Rows, prior: Distribution | None) -> "Training":
        """The fit to all rows that are not held out."""
        check_draws(estimator.num_predictive_samples, estimator._network().size)
        return cls(estimator, *hold_out(estimator, rows), prior)

    def posterior(
        self,
        alpha: Any,
        last: Posterior | None = None,
        num_epochs: int | None = None,
        checkpoint: Any = None,
    ) -> Posterior:
        """The posterior at one power.

        Args:
            alpha: The power.
            last: The posterior to start from; by default the start is random.
            num_epochs: Passes over the rows; by default as the settings say.
            checkpoint: Where to save the fit.
        """
        one, rows = self.estimator, self.rows
        level, network = one._level(rows), one._network()
        own_prior = network.prior_around(level, float(one.prior_scale))
        factors = network.factors() if last is None else network.factors_of(last.prior, own_prior)
        return quiet_fit(
            log_likelihood_of(one.activation),
            network.start(level, one._seed) if last is None else last.mean,
            Dataset(rows.inputs, rows.targets),
            key=threefry.key_of(one._seed),
            alpha=alpha,
            prior=self.prior or own_prior,
            learn_prior=factors if one._learns_prior() and self.prior is None else False,
            hyperparams=one._new_likelihood(level) if last is None else last.hyperparams,
            family=CappedGaussian if last is None else partial(as_wide_as, last.q),
            optimizer="adam" if one.learning_rate is None else adam(float(one.learning_rate)),
            num_epochs=num_epochs or epochs_of(one, len(rows.inputs)),
            batch_size=min(one.batch_size, padded_length(len(rows.inputs))),
            num_samples=one.num_samples,
            draws="antithetic",
            sample_weight=rows.sample_weight,
            early_stopping=self.early_stopping,
            checkpoint=checkpoint,
            progress=bool(one.verbose),
        )


def quiet_fit(*args: Any, **kwargs: Any) -> Posterior:
    """`fit` without its warning about convergence, which the estimator words itself."""
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
    if info.stopped == "finished" and info.fall > 0:
        warn(
            f"fit did not converge: {reason_of_fall(info, 'Raise max_epochs.')}",
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
    """The number of epochs: as set or, at the default rate, 100 within 5,000 and 10,000 steps."""
    if estimator.max_epochs is not None or estimator.learning_rate is not None:
        return estimator.max_epochs
    num_batches = -(-num_rows // estimator.batch_size)
    fewest, most = (-(-steps // num_batches) for steps in (FEWEST_STEPS, NUM_STEPS))
    return max(fewest, min(NUM_EPOCHS, most))


def check_resumable(random_state: Any, checkpoint: Any) -> None:
    """Raise if a fit could not continue from its checkpoint, because its seed would change."""
    if checkpoint is not None and random_state is None:
        raise ValueError(
            "random_state must be set if checkpoint is given, so that the same call goes on; "
            "got random_state=None."
        )


def last_posterior(estimator: Any) -> Posterior | None:
    """The posterior to continue from, as it was fitted, or None.

    For a stacked posterior, this is the member with the largest share.
    """
    posterior = getattr(estimator, "posterior_", None)
    if posterior is None:
        return None
    last = strongest(estimator, posterior)
    return dataclasses.replace(last, hyperparams=as_fitted(last.hyperparams))


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
