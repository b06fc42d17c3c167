"""Stacking: posteriors at several powers, mixed so that they predict left-out rows best.

The weights w maximize Σₙ log Σₖ wₖ p₋ₙₖ(yₙ), where p₋ₙₖ is the leave-one-out density of row n at
power k (Yao et al., 2018); `alpha_curve` finds them. The mixture is a posterior like any other:
each of its draws comes from one of the members, chosen with these weights.
"""

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.typing import ArrayLike
from jaxtyping import Array, Float64

from bbalpha.engine.arrays import on_device
from bbalpha.engine.layout import Layout
from bbalpha.likelihoods import Columns, OrderedLikelihood, Outputs, PerDatum, RandomKey
from bbalpha.mixtures import GaussianMixture
from bbalpha.posterior import Posterior

CERTAIN = -80.0  # log-variance of the parameter that holds the number of a member: none


class Members(eqx.Module):
    """A likelihood whose learned noise differs between the members of a mixture.

    The last column of the outputs is the number of the member.

    Attributes:
        each: The likelihoods of all members, stacked along a new first axis of every array.
    """

    each: OrderedLikelihood

    def log_prob(self, outputs: Outputs, targets: ArrayLike) -> PerDatum:
        """Return the log-density under the likelihood of each draw."""
        return self._of_draws(outputs, lambda one, outputs: one.log_prob(outputs, targets))

    def mean(self, outputs: Outputs) -> Columns:
        """Return the mean under the likelihood of each draw."""
        return self._of_draws(outputs, lambda one, outputs: one.mean(outputs))

    def variance(self, outputs: Outputs) -> Columns:
        """Return the variance under the likelihood of each draw."""
        return self._of_draws(outputs, lambda one, outputs: one.variance(outputs))

    def sample(self, outputs: Outputs, *, key: RandomKey) -> Array:
        """Return one target per row under the likelihood of each draw."""
        return self._of_draws(outputs, lambda one, outputs: one.sample(outputs, key=key))

    def cdf(self, outputs: Outputs, targets: ArrayLike) -> Columns:
        """Return P(Y ≤ y) under the likelihood of each draw."""
        return self._of_draws(outputs, lambda one, outputs: one.cdf(outputs, targets))

    def survival(self, outputs: Outputs, targets: ArrayLike) -> Columns:
        """Return P(Y > y) under the likelihood of each draw."""
        return self._of_draws(outputs, lambda one, outputs: one.survival(outputs, targets))

    def _of_draws(self, outputs: Outputs, function: Callable[[Any, Array], Array]) -> Array:
        """`function(likelihood, outputs)`, with the likelihood of the member of each draw."""
        numbers, outputs = outputs[..., -1], outputs[..., :-1]
        first, *others = (function(one, outputs) for one in members_of_likelihood(self))
        for number, result in enumerate(others, start=1):
            is_from = numbers == number
            is_from = is_from if result.ndim == is_from.ndim else is_from[..., None]
            first = jnp.where(is_from, result, first)
        return first


def of_members(likelihood: OrderedLikelihood, num_members: int) -> Members:
    """The likelihood of a mixture in which all members have this likelihood."""
    return Members(jax.tree.map(lambda leaf: jnp.stack([leaf] * num_members), likelihood))


def members_of_likelihood(likelihood: Any) -> list[Any]:
    """The likelihoods of all members; a list of one if there is no mixture."""
    if not isinstance(likelihood, Members):
        return [likelihood]
    num_members = len(jax.tree.leaves(likelihood.each)[0])
    return [jax.tree.map(lambda leaf, k=k: leaf[k], likelihood.each) for k in range(num_members)]


def stacked(posteriors: Sequence[Posterior], weights: Sequence[float]) -> Posterior:
    """The mixture of several posteriors of the same network; a single one is returned as it is.

    `alpha` and `energy` of the mixture are averages. If the members differ in their learned noise,
    the parameters of the mixture include the number of the member.
    """
    if len(posteriors) == 1:
        return posteriors[0]
    first, shares = posteriors[0], np.asarray(weights) / np.sum(weights)
    is_numbered = not _are_equal([posterior.hyperparams for posterior in posteriors])
    priors: list[Any] = [posterior.prior for posterior in posteriors]
    q, prior = (
        _mixture(group, shares, is_numbered)
        for group in ([posterior.q for posterior in posteriors], priors)
    )
    likelihood, layout = first.hyperparams, first.layout
    if is_numbered:
        each = [posterior.hyperparams for posterior in posteriors]
        likelihood = Members(jax.tree.map(lambda *leaves: jnp.stack(leaves), *each))
        layout = Layout.of(numbered(jax.eval_shape(layout.unflatten, first.q.mean)))
    best = posteriors[int(np.argmax(shares))]
    return Posterior(
        q=q,
        prior=prior,
        hyperparams=likelihood,
        alpha=_average([posterior.alpha for posterior in posteriors], shares),
        num_data=first.num_data,
        energy=_average([posterior.energy for posterior in posteriors], shares),
        layout=layout,
        info=best.info,
    )


def numbered(params: Any) -> Any:
    """The parameters and, with the same type, the number of a member."""
    return params | {"member": jax.ShapeDtypeStruct((), jax.tree.leaves(params)[0].dtype)}


def is_stacked(posterior: Posterior) -> bool:
    """Whether a posterior is a mixture."""
    return isinstance(posterior.q, GaussianMixture)


def members_of(model: Any, posterior: Posterior) -> list[Posterior]:
    """The posteriors that an estimator stacked; a list of one if there is no mixture."""
    if not is_stacked(posterior):
        return [posterior]
    plain, alphas = Layout.of(model._network().shapes()), model.alpha_curve_.members
    mixtures: Any = posterior.q, posterior.prior
    gaussians = (
        [jax.tree.map(lambda leaf: leaf[: plain.size], one) for one in mixture.members]
        for mixture in mixtures
    )
    likelihoods = members_of_likelihood(posterior.hyperparams)
    likelihoods = likelihoods * (len(alphas) // len(likelihoods))  # a common one, or one each
    parts = zip(*gaussians, likelihoods, alphas, strict=True)
    return [
        Posterior(
            q=q,
            prior=prior,
            hyperparams=likelihood,
            alpha=on_device(alpha, posterior.alpha.dtype),
            num_data=posterior.num_data,
            energy=posterior.energy,
            layout=plain,
            info=posterior.info,
        )
        for q, prior, likelihood, alpha in parts
    ]


def strongest(model: Any, posterior: Posterior) -> Posterior:
    """The member with the largest weight."""
    return members_of(model, posterior)[int(np.argmax(weights_of(posterior)))]


def weights_of(posterior: Posterior) -> Float64[np.ndarray, " members"]:
    """The weights of the members; [1] if there is no mixture."""
    if not is_stacked(posterior):
        return np.ones(1)
    mixture: Any = posterior.q
    log_weights = np.asarray(mixture.log_weights, np.float64)
    return np.exp(log_weights - np.logaddexp.reduce(log_weights))


def mixed_densities(
    weights: Float64[np.ndarray, " members"], log_densities: Sequence[Any]
) -> Float64[np.ndarray, " rows"]:
    """The log-densities of the mixture, given those of its members."""
    return np.logaddexp.reduce(np.log(weights)[:, None] + np.asarray(log_densities, np.float64))


def outputs_of_members(draws: Sequence[Array], posterior: Posterior) -> Array:
    """Draws of the outputs of the mixture: from each member, a share given by its weight.

    There are as many draws in all as each member has.
    """
    num_draws = len(draws[0])
    ends = np.round(num_draws * np.cumsum(weights_of(posterior))).astype(int)
    counts = np.diff(ends, prepend=0)
    parts = [np.asarray(part)[:count] for part, count in zip(draws, counts, strict=True)]
    if isinstance(posterior.hyperparams, Members):
        last = [np.full_like(outputs[..., :1], k) for k, outputs in enumerate(parts)]
        parts = [np.concatenate(pair, axis=-1) for pair in zip(parts, last, strict=True)]
    return on_device(np.concatenate(parts))


def _mixture(
    gaussians: Sequence[Any], shares: Float64[np.ndarray, " members"], is_numbered: bool
) -> GaussianMixture:
    """The mixture of these Gaussians; if it is numbered, the last parameter of member k is k."""
    means = np.stack([np.asarray(one.mean) for one in gaussians])
    log_variances = np.stack([np.asarray(one.log_variance) for one in gaussians])
    if is_numbered:
        numbers = np.arange(len(means))[:, None]
        means = np.hstack([means, numbers.astype(means.dtype)])
        certain = np.full_like(log_variances[:, :1], CERTAIN)
        log_variances = np.hstack([log_variances, certain])
    log_weights = np.log(shares).astype(means.dtype)
    return GaussianMixture(*map(on_device, (means, log_variances, log_weights)))


def _average(numbers: Sequence[Any], shares: Float64[np.ndarray, " members"]) -> Array:
    """The weighted average, of the type of the numbers."""
    average = np.asarray(numbers, np.float64) @ shares
    return on_device(average, jnp.result_type(numbers[0]))


def _are_equal(trees: Sequence[Any]) -> bool:
    first, *others = (jax.tree.map(np.asarray, tree) for tree in trees)
    return all(bool(eqx.tree_equal(first, tree)) for tree in others)
