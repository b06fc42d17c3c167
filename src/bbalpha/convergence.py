"""Has a fit converged? A test of stationarity on averages of its steps, with Monte Carlo error.

A run of natural-gradient steps is divided into rounds, and each round records its average. Only the
last half of the rounds is judged. The fit has converged when the two halves of these rounds agree,
and their average is known, within a tolerance in units of posterior deviations. That average is the
result of the fit. For any other optimizer, only the energies are judged: are they still falling?
"""

import dataclasses
import math
from typing import Any, NamedTuple

import jax
import numpy as np

from bbalpha.engine.arrays import on_device
from bbalpha.engine.layout import Layout
from bbalpha.natural import NaturalState, Record
from bbalpha.runaway import (
    STEADY_STEPS,
    STEADY_TRAVEL,
    Runaway,
    beyond_numbers,
    names,
    steady_change,
)

ROUND_STEPS = 10  # fewest steps in a round
FEW_ROUND_STEPS = 3  # fewest steps in a round if steps take long
FEWEST_ROUNDS = 12  # needed to judge: of the last half, three rounds are compared with three
MOST_ROUNDS = 48  # then neighbors are merged, and later rounds are twice as long
LEAST_TRAVEL = 5.0  # sum of the rates of the judged steps; each 1 shrinks an error e-fold
NUM_ERRORS = 2.0  # standard errors within which an average must be known
NOISE_ERRORS = 4.0  # standard errors; a larger difference is not due to noise
PATIENCE = 2  # times the fewest rounds, during which averaging alone may remove the noise
LOWERED, MOST_LOWERED = 0.5, 2  # then the highest rate is multiplied by ½, at most twice


FAR = 1.0  # posterior deviations; a fit that still moves this far may have no optimum
FLAT_SHARE = 0.9  # of N; at α = N the energy is the same for every q
# Thresholds for energies, in standard errors, nats per data point, and shares of the whole fall. On
# four UCI sets they distinguish 1,000 steps of Adam from 10,000 (benchmarks/networks.py).
FALL_ERRORS, LEAST_FALL, LARGEST_FALL, LARGEST_SHARE = 4.0, 0.01, 0.5, 0.08
FEWEST_ENERGIES = 8


class ConvergenceWarning(UserWarning):
    """A fit ended before its result stopped moving."""


class Movement(NamedTuple):
    """How far a fit was still moving, or how uncertain its result is, at its end.

    Means are measured in posterior deviations, deviations relative to themselves, prior scales and
    hyper-parameters in their own units.
    """

    means: float = math.inf
    deviations: float = math.inf
    hyperparams: float = 0.0


NOT_JUDGED = Movement()


@dataclasses.dataclass
class Convergence:
    """The judge of one run: it collects rounds and says when they have converged."""

    tolerance: float
    layout: Layout  # the names of the parameters
    round_steps: int = ROUND_STEPS
    is_flat: bool = False  # α is so close to N that the energy hardly depends on q
    rounds: list[Record] = dataclasses.field(default_factory=list)
    movement: Movement = NOT_JUDGED
    fastest: int = 0  # the parameter that moves most
    runaway: Runaway | None = None
    is_noisy: bool = False  # no drift is visible, but the average is not known well enough
    converged: bool = False
    num_lowered: int = 0

    @property
    def ending(self) -> str | None:
        """The reason to end now, if any: q has settled, or more steps would not help."""
        if self.converged:
            return "converged"
        if self.runaway:
            return "diverged"
        return "finished" if self.is_flat and self.movement is not NOT_JUDGED else None

    def next_round(self, natural: NaturalState) -> NaturalState:
        """Add the record as a round if it is long enough, and lower the rate if that helps."""
        if int(natural.record.num_steps) < self.round_steps or self.ending:
            return natural  # a replica that has ended takes further steps with the others
        self.runaway = _beyond_range(natural.record)
        if natural.is_settled and not self.runaway:
            self.add(natural.record)
        rate = np.asarray(natural.highest_rate)
        patience_is_over = len(self.rounds) >= PATIENCE * FEWEST_ROUNDS
        if self.is_noisy and patience_is_over and self.num_lowered < MOST_LOWERED:
            self.rounds, self.is_noisy = self.last_half(), False
            self.num_lowered += 1
            rate = rate * np.asarray(LOWERED, rate.dtype)
        # On the device, like the results of steps, so that calls find their compiled programs.
        record = jax.tree.map(lambda leaf: on_device(np.zeros_like(leaf)), natural.record)
        return natural._replace(record=record, highest_rate=on_device(rate))

    def result(self, variables: Any) -> Any:
        """The average variables of the last rounds or, if they still drift, the last variables."""
        return self.average() if self.converged or self.is_noisy else variables

    def reason(self, num_steps: int) -> str:
        """Why a fit of so many steps has not converged, and what to do."""
        if self.runaway:
            return self.runaway.reason(self.layout)
        if self.movement is NOT_JUDGED:
            fewest = FEWEST_ROUNDS * self.round_steps
            return (
                f"{num_steps:,} steps are too few to judge: once q is near the optimum, that takes "
                f"at least {fewest}. Raise num_epochs."
            )
        if self.is_flat:
            return (
                "alpha is so close to the number of data points that the energy hardly depends on "
                "q. Lower alpha."
            )
        fastest = names(self.layout, np.arange(self.layout.size) == self.fastest)
        if max(self.movement) > FAR:
            return (
                f"the means still move by {self.movement.means:.2g} posterior deviations and the "
                f"deviations by {self.movement.deviations:.0%}, most in {fastest}. Raise "
                "num_epochs; if that does not help, the energy may have no minimum: use a narrower "
                "prior or a smaller alpha."
            )
        if max(self.movement) <= self.tolerance:
            return (
                f"the steps had to be so short that {num_steps:,} of them are too few to judge. "
                "Raise num_epochs or num_samples."
            )
        if self.movement.hyperparams > max(self.movement[:2]):
            return (
                "a prior scale or hyper-parameter is only known to within "
                f"{self.movement.hyperparams:.2g}. Raise num_epochs; if that does not help, it may "
                "have no optimum: fix its value, or start it elsewhere."
            )
        return (
            f"the means are known to {self.movement.means:.2g} posterior deviations and the "
            f"deviations to {self.movement.deviations:.1%}, which exceeds the tolerance of "
            f"{self.tolerance:g}; the worst parameter is {fastest}. Raise num_epochs or "
            "num_samples, or loosen tolerance."
        )

    def add(self, record: Record) -> None:
        """Add one more round and judge the last rounds."""
        self.rounds.append(jax.tree.map(np.asarray, record))
        if len(self.rounds) == MOST_ROUNDS:
            pairs = zip(self.rounds[::2], self.rounds[1::2], strict=True)
            self.rounds = [_sum(list(pair)) for pair in pairs]
            self.round_steps *= 2
        if len(self.rounds) >= FEWEST_ROUNDS:
            self._judge(self.last_half())
            self.runaway = self._runaway()
            self.converged = self.converged and not self.runaway

    def last_half(self) -> list[Record]:
        """The rounds that are judged."""
        return self.rounds[len(self.rounds) // 2 :]

    def average(self) -> Any:
        """The average variables of the rounds that are judged."""
        total = _sum(self.last_half())
        return jax.tree.map(
            lambda leaf: on_device(leaf / total.num_steps, leaf.dtype), total.variables
        )

    def agrees(self, variables: Any) -> bool:
        """Whether variables are within the tolerance of the average."""
        average = self.average()
        moved = [np.abs(variables.q.mean - average.q.mean) / np.sqrt(average.q.variance)]
        moved += [np.abs(np.log(variables.q.variance / average.q.variance) / 2)]
        others = ((one.log_prior_scale, one.hyperparams) for one in (variables, average))
        moved += jax.tree.leaves(jax.tree.map(lambda a, b: np.abs(a - b), *others))
        return all(bool(np.all(part <= self.tolerance)) for part in moved)

    def _judge(self, rounds: list[Record]) -> None:
        halves = rounds[: len(rounds) // 2], rounds[len(rounds) // 2 :]
        positions = [[_position(record) for record in half] for half in halves]
        unit = np.exp(np.mean([at[1] for at in positions[1]], axis=0))
        means, deviations, others = (
            _compare(*(np.array([at[part] for at in half]) for half in positions))
            for part in range(3)
        )
        moved = (means[0] / unit, deviations[0], others[0])
        errors = (means[1] / unit, deviations[1], others[1])
        self.movement = Movement(
            *(
                float(np.max(np.maximum(by, NUM_ERRORS * error), initial=0.0))
                for by, error in zip(moved, errors, strict=True)
            )
        )
        most = np.maximum(*(np.maximum(moved[i], NUM_ERRORS * errors[i]) for i in range(2)))
        self.fastest = int(np.argmax(most))
        movement, error = np.concatenate(moved), np.concatenate(errors)
        has_traveled = sum(float(record.travel) for record in rounds) >= LEAST_TRAVEL
        is_steady = bool(np.all(movement <= np.maximum(NOISE_ERRORS * 2 * error, self.tolerance)))
        is_known = bool(np.all(np.maximum(movement, NUM_ERRORS * error) <= self.tolerance))
        self.converged = has_traveled and is_known and not self.is_flat
        self.is_noisy = has_traveled and is_steady and not is_known

    def _runaway(self) -> Runaway:
        """The parameters whose deviations fall below rounding, or change without end."""
        total = _sum(self.last_half())
        mean, log_deviation, _ = _position(total)
        lost = beyond_numbers(mean.astype(total.mean.dtype), log_deviation)
        num_steps = sum(int(record.num_steps) for record in self.rounds)
        travel = sum(float(record.travel) for record in self.rounds)
        is_long = num_steps >= STEADY_STEPS and travel >= STEADY_TRAVEL
        # Prior scales and hyper-parameters move at their own rate, and deviations follow them.
        if lost or not is_long or jax.tree.leaves(total.variables[1:]):
            return lost
        return steady_change(np.array([_position(record)[1] for record in self.rounds]))


def fall_of(energies: np.ndarray, num_data: float, first: int = 0) -> float:
    """How much energy a run still lost in its third quarter, in nats per data point; 0 if settled.

    The second quarter is compared with the third, because a rate that falls to zero would hide a
    drift at the end. A fall counts if it exceeds the noise and is large, either by itself or as a
    share of the fall of the whole run. It is infinite if there are too few energies to judge.

    Args:
        energies: the mean energy of every part of an epoch, in order.
        num_data: N.
        first: the part with which the first quarter begins; later than 0 if a prior began to be
            learned later.
    """
    if len(energies) - first < FEWEST_ENERGIES:
        return math.inf
    quarters = np.array_split(energies[first:] / num_data, 4)
    fall = quarters[1].mean() - quarters[2].mean()
    # From one energy to the next, because a steady fall within the quarters is no noise.
    variance = np.var(np.diff(np.concatenate(quarters[1:3])), ddof=1) / 2
    error = math.sqrt(sum(variance / len(part) for part in quarters[1:3]))
    whole = max(energies[0] / num_data - quarters[3].mean(), 0.0)
    is_real = fall > max(FALL_ERRORS * error, LEAST_FALL)
    is_large = fall > min(LARGEST_FALL, LARGEST_SHARE * whole)
    return float(fall) if is_real and is_large else 0.0


def mean_energies(energies: np.ndarray) -> np.ndarray:
    """The mean minibatch energy of every part of an epoch, given the sums up to its end.

    Parts are counted as equally long: they differ by at most one of at least 256 minibatches.

    Args:
        energies: of shape (epochs, parts), as `engine/loop` records them.
    """
    num_parts = energies.shape[-1]
    return num_parts * np.diff(energies, axis=-1, prepend=0.0).ravel()


def check_tolerance(tolerance: Any) -> None:
    """Raise unless the tolerance is a positive number."""
    if not isinstance(tolerance, int | float | np.number) or not 0 < tolerance < math.inf:
        raise ValueError(f"tolerance must be positive and finite; got tolerance={tolerance!r}.")


def _position(record: Record) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Average means, log-deviations, and all other variables of a round."""
    count = float(record.num_steps)
    variables = record.variables
    others = jax.tree.leaves((variables.log_prior_scale, variables.hyperparams))
    flat = np.concatenate([np.zeros(0), *(np.ravel(leaf) for leaf in others)])
    return np.asarray(record.mean) / count, np.asarray(record.log_deviation) / count, flat / count


def _beyond_range(record: Record) -> Runaway:
    """The parameters whose deviations leave the range of floating-point numbers."""
    _, log_deviation, _ = _position(record)
    return beyond_numbers(np.zeros_like(record.mean), log_deviation)


def _compare(earlier: np.ndarray, later: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The difference of two sets of rounds, and the standard error of their common average."""
    num_rounds = len(earlier) + len(later)
    squares = (len(earlier) - 1) * np.var(earlier, axis=0, ddof=1)
    squares = squares + (len(later) - 1) * np.var(later, axis=0, ddof=1)
    error = np.sqrt(squares / (num_rounds - 2) / num_rounds)
    return np.abs(np.mean(later, axis=0) - np.mean(earlier, axis=0)), error


def _sum(records: list[Record]) -> Record:
    """The sums over all records, computed in double precision and stored in their own types."""

    def add(*leaves: np.ndarray) -> np.ndarray:
        return np.asarray(np.sum(np.asarray(leaves, float), axis=0), leaves[0].dtype)

    return jax.tree.map(add, *records)
