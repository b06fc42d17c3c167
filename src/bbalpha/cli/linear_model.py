"""The linear model that `compare` fits: standardized inputs, an intercept, one output."""

import math
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from bbalpha.cli.describe import columns_in_words, ignored_in_words
from bbalpha.cli.doors import Refusal
from bbalpha.cli.header import target_in_words
from bbalpha.cli.printing import count
from bbalpha.cli.training_table import NewRows, TrainingTable
from bbalpha.counts import Poisson
from bbalpha.data import standardize
from bbalpha.distributions import DiagonalGaussian
from bbalpha.interfaces.inputs import InputUnits
from bbalpha.likelihoods import Bernoulli, Gaussian, Likelihood, Probit
from bbalpha.message_passing.comparing import compare
from bbalpha.message_passing.comparison import Comparison
from bbalpha.message_passing.conjugate import LinearRegression
from bbalpha.message_passing.programs import in_double_precision
from bbalpha.message_passing.projections import GaussianPrior
from bbalpha.tables.messages import listing, quote

DEVIATIONS = (1e-100, 1e100)  # of the target; within these, sums of squares do not overflow


class LinearModel(NamedTuple):
    """A likelihood and a prior in the units of the target, and the rows to fit.

    Attributes:
        table: The training table.
        name: The name of the likelihood.
        units: How inputs are standardized.
        level: The prior mean of the intercept.
        scale: The prior standard deviation of every weight.
        noise: The standard deviation of Gaussian noise; NaN for other likelihoods.
    """

    table: TrainingTable
    name: str
    units: InputUnits
    level: float
    scale: float
    noise: float

    @classmethod
    def of(cls, table: TrainingTable, name: str, prior_scale: float) -> "LinearModel":
        """The model of a table; the size of Gaussian noise is the one with the highest evidence."""
        _check_target(table)
        units = InputUnits.learn(table.inputs, np.ones(len(table.inputs)), with_axes=False)
        level, scale, noise = 0.0, prior_scale, math.nan
        if name == "poisson":
            level = math.log(table.targets.mean())
        if name == "gaussian":
            units_of_target = standardize(table.targets)[1]
            _check_deviation(table, float(units_of_target.scale))
            level, scale = float(units_of_target.mean), prior_scale * float(units_of_target.scale)
        model = cls(table, name, units, level, scale, noise)
        return model._replace(noise=model._likeliest_noise()) if name == "gaussian" else model

    def compare(self, new: NewRows | None, seed: int, **settings: Any) -> Comparison:
        """Compare methods on this model.

        Args:
            new: The held-out rows, if any.
            seed: Seed for all draws.
            settings: Other arguments of `bbalpha.compare`.
        """
        with in_double_precision():
            rows = self._design(self.table.inputs), self._numbers(self.table.targets)
            test = new and (self._design(new.inputs), self._numbers(new.targets))
            prior = DiagonalGaussian(
                jnp.asarray(self._prior_mean), jnp.full(rows[0].shape[1], 2 * math.log(self.scale))
            )
            key = jax.random.key(seed)
            return compare(self._likelihood, *rows, key=key, prior=prior, test=test, **settings)

    def facts(self, data: Path | str, new: NewRows | None) -> dict[str, str]:
        """The model and the rows that are compared, in words."""
        table, encoder = self.table, self.table.encoder
        rows = (
            f"{count(len(table.inputs), 'row')} to fit, {len(new.inputs) if new else 0:,} held out"
        )
        return {
            "data": f"{data}: {rows}",
            "target": target_in_words(table.target.name, table.target.task, table.target.classes),
            "inputs": columns_in_words(encoder),
            **({"ignored": ignored_in_words(encoder)} if encoder.ignored else {}),
            "model": f"linear, {self._words}",
        }

    def facts_for_json(self, new: NewRows | None) -> dict[str, Any]:
        """The same facts for JSON."""
        return {
            "task": self.table.target.task,
            "target": self.table.target.name,
            "rows": len(self.table.inputs),
            "held_out_rows": len(new.inputs) if new else 0,
            "likelihood": self.name,
            "noise_deviation": self.noise,
            "prior_deviation": self.scale,
            "parameters": ["(intercept)", *self.table.encoder.feature_names],
        }

    @property
    def _words(self) -> str:
        prior = f"prior standard deviation {self.scale:.4g}"
        if self.name == "gaussian":
            return f"gaussian noise, standard deviation {self.noise:.4g} (estimated), {prior}"
        return f"{self.name} likelihood, {prior}"

    @property
    def _likelihood(self) -> Likelihood:
        match self.name:
            case "gaussian":
                return Gaussian(2 * math.log(self.noise))
            case "poisson":
                return Poisson()
            case "probit":
                return Probit()
            case _:
                return Bernoulli()

    @property
    def _prior_mean(self) -> np.ndarray:
        return np.append(self.level, np.zeros(self.table.inputs.shape[1]))

    def _likeliest_noise(self) -> float:
        mean = self._prior_mean
        with in_double_precision():
            prior = GaussianPrior(jnp.asarray(mean), jnp.full(len(mean), self.scale))
            rows = self._design(self.table.inputs), self.table.targets
            model = LinearRegression.of(*rows, prior)
        return math.sqrt(model.likeliest_noise_variance())

    def _design(self, inputs: np.ndarray) -> np.ndarray:
        """A column of ones, and the standardized inputs."""
        return np.column_stack([np.ones(len(inputs)), self.units.transform(inputs)])

    def _numbers(self, targets: np.ndarray) -> np.ndarray:
        """Numbers unchanged; classes as 0 and 1."""
        if self.table.target.task == "regression":
            return targets
        return (targets == self.table.target.classes[1]).astype(np.float64)


def _check_target(table: TrainingTable) -> None:
    target = table.target
    if len(target.classes) > 2:
        raise Refusal(
            f"target {quote(target.name)} must be a number or have two classes for compare; got "
            f"{len(target.classes)} classes: {listing(target.classes)}."
        )
    first = table.targets[0]
    if (table.targets == first).all():
        shown = f"{first:g}" if target.task == "regression" else quote(first)
        raise Refusal(
            f"target {quote(target.name)} must differ between the rows that are not held out; got "
            f"{shown} in all of them."
        )


def _check_deviation(table: TrainingTable, deviation: float) -> None:
    lowest, highest = DEVIATIONS
    if not lowest <= deviation <= highest:
        raise Refusal(
            f"target {quote(table.target.name)} must have a standard deviation between {lowest:g} "
            f"and {highest:g} for compare; got {deviation:.3g}. Change its unit."
        )
