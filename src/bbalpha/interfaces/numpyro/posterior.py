"""`ModelPosterior`, which `fit` returns for a NumPyro model: draws, summaries and diagnostics."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import jax
from jaxtyping import Array, Float, Key
from numpyro import handlers
from numpyro.infer import Predictive
from numpyro.infer import log_likelihood as site_log_likelihoods

from bbalpha.diagnostics import Diagnosis
from bbalpha.engine.checks import as_keys, check_counts
from bbalpha.interfaces.numpyro.guide_draws import summary_of_draws
from bbalpha.interfaces.numpyro.structure import Structure, with_all_rows
from bbalpha.interfaces.numpyro.traces import Program
from bbalpha.posterior import FitInfo, Posterior
from bbalpha.reweighting import Reweighted
from bbalpha.summaries import NUM_DRAWS, Summary

Sites = dict[str, Float[Array, "..."]]


@runtime_checkable
class SiteDraws(Protocol):
    """Where the draws of a posterior come from: parameters that bbalpha fitted, or a guide."""

    @property
    def alpha(self) -> Any:
        """The power."""
        ...

    @property
    def energy(self) -> Float[Array, ""]:
        """The energy on all data; lower is better."""
        ...

    @property
    def info(self) -> FitInfo:
        """The record of the run."""
        ...

    @property
    def params(self) -> dict[str, Any]:
        """The values of `numpyro.param` and mutable sites."""
        ...

    def sample(self, num_samples: int, key: Array) -> Sites:
        """Draws of the latent sites."""
        ...

    def summary(self) -> Summary:
        """Mean, deviation and quantiles of the latent sites."""
        ...

    def diagnose(self, key: Array, num_samples: int) -> Diagnosis:
        """How far q is from the exact posterior."""
        ...

    def reweighted(self, key: Array, num_samples: int) -> Reweighted:
        """The exact posterior, as weighted draws."""
        ...


@dataclass(frozen=True, eq=False)
class ParameterDraws:
    """Draws of a posterior that `bbalpha.fit` found for a plain model.

    If supports depend on other sites, the posterior describes unconstrained values, and
    `values_of` maps a draw of them to the values of the sites.
    """

    posterior: Posterior
    log_likelihood: Any
    rows: Array
    values_of: Any = None

    @property
    def alpha(self) -> Any:
        """The power."""
        return self.posterior.alpha

    @property
    def energy(self) -> Float[Array, ""]:
        """The energy on all data; lower is better."""
        return self.posterior.energy

    @property
    def info(self) -> FitInfo:
        """The record of the run."""
        return self.posterior.info

    @property
    def params(self) -> dict[str, Any]:
        """No values: a plain model has none."""
        return {}

    def sample(self, num_samples: int, key: Array) -> Sites:
        """Draws of the latent sites."""
        return self._constrained(self.posterior.sample(num_samples, key=key))

    def summary(self) -> Summary:
        """Mean, deviation and quantiles of the latent sites."""
        if self.values_of is None:
            return self.posterior.summary()
        return summary_of_draws(self.sample(NUM_DRAWS, jax.random.key(0)))

    def diagnose(self, key: Array, num_samples: int) -> Diagnosis:
        """How far q is from the exact posterior."""
        return self.posterior.diagnose(
            self.log_likelihood, self.rows, key=key, num_samples=num_samples
        )

    def reweighted(self, key: Array, num_samples: int) -> Reweighted:
        """The exact posterior, as weighted draws."""
        found = self.posterior.reweighted(
            self.log_likelihood, self.rows, key=key, num_samples=num_samples
        )
        return Reweighted(self._constrained(found.draws), found.weights, found.pareto_k)

    def _constrained(self, draws: Sites) -> Sites:
        """The values of the sites for draws of the posterior."""
        if self.values_of is None:
            return draws
        return jax.jit(jax.vmap(lambda free: self.values_of(free)[0]))(draws)


@dataclass(frozen=True, eq=False)
class ModelPosterior:
    """The approximate posterior of the latent sites of a NumPyro model, as returned by `fit`.

    Draws, means and summaries are dictionaries keyed by the names of the sites, in the units of the
    model.

    Attributes:
        program: the model, the guide and their arguments.
        structure: the sites and plates of the model.
        draws: the source of draws.
    """

    program: Program
    structure: Structure
    draws: SiteDraws

    def __repr__(self) -> str:
        info = self.info
        return (
            f"ModelPosterior of {', '.join(self.structure.latent)}\n"
            f"    α = {self._shown_alpha}, N = {self.num_data}, energy = {float(self.energy):.6g}\n"
            f"    {info.num_steps:,} steps, {info.seconds:.1f} s, stopped: {info.stopped}, "
            f"converged: {'yes' if info.converged else 'no'}"
        )

    @property
    def alpha(self) -> Any:
        """The power."""
        return self.draws.alpha

    @property
    def num_data(self) -> int:
        """N, the number of data points."""
        return self.structure.num_data

    @property
    def energy(self) -> Float[Array, ""]:
        """The energy on all data; lower is better."""
        return self.draws.energy

    @property
    def info(self) -> FitInfo:
        """The record of the run: steps, energies, and whether it has converged."""
        return self.draws.info

    @property
    def params(self) -> dict[str, Any]:
        """The values of `numpyro.param` and mutable sites, if `SVI` has learned any."""
        return self.draws.params

    def sample(self, num_samples: int, *, key: Key[Array, ""]) -> Sites:
        """Draws of the latent sites, each an array with a leading axis of draws."""
        check_counts(num_samples=num_samples)
        return self.draws.sample(num_samples, as_keys(key, 0, "key"))

    def predictive(
        self, num_samples: int = 1000, *, key: Key[Array, ""], new_data: bool = False
    ) -> Predictive:
        """NumPyro's `Predictive` with draws of the posterior; call it with a key and arguments.

        Plates take all of their rows, even if the model subsamples them.

        Args:
            num_samples: number of draws.
            key: randomness of the draws.
            new_data: whether the data plates hold new data points. If so, latent sites inside these
                plates are drawn from their distributions in the model, not from the posterior.
        """
        draws = self.sample(num_samples, key=key)
        if new_data:
            draws = {name: of for name, of in draws.items() if name not in self.structure.local}
        model = with_all_rows(self.program).model
        return Predictive(model, draws, params=self.params or None, parallel=True)

    def log_likelihoods(self, draws: Sites) -> Sites:
        """The log-likelihood of every observed value for every draw, keyed by site."""
        model = with_all_rows(self.program).model
        model = handlers.substitute(model, data=self.params)
        return site_log_likelihoods(model, draws, *self.program.args, **self.program.kwargs)

    def groups(self, num_samples: int, *, key: Key[Array, ""]) -> dict[str, Sites]:
        """Draws, log-likelihoods, replicated and observed data, in the form for `to_arviz`."""
        draws = self.sample(num_samples, key=key)
        args, kwargs = self.program.args, self.program.kwargs
        model = with_all_rows(self.program).model
        model = handlers.substitute(model, data=self.params)
        trace = handlers.trace(handlers.seed(model, key)).get_trace(*args, **kwargs)
        observed = {
            name: site["value"]
            for name, site in trace.items()
            if site["type"] == "sample" and site["is_observed"] and site["value"].size
        }
        replicated = {}
        if observed:  # factors have no values
            predictive = Predictive(handlers.uncondition(model), draws, return_sites=[*observed])
            replicated = predictive(jax.random.fold_in(key, 1), *args, **kwargs)
        return {
            "posterior": draws,
            "log_likelihood": self.log_likelihoods(draws),
            "posterior_predictive": replicated,
            "observed_data": observed,
        }

    def summary(self) -> Summary:
        """Mean, deviation and 5 % and 95 % quantiles of every site; `print` shows a table."""
        return self.draws.summary()

    def diagnose(self, *, key: Key[Array, ""], num_samples: int = 4000) -> Diagnosis:
        """How far q is from the exact posterior, and how noisy the fit was; `print` the result."""
        return self.draws.diagnose(as_keys(key, 0, "key"), num_samples)

    def reweighted(self, *, key: Key[Array, ""], num_samples: int = 4000) -> Reweighted:
        """The exact posterior, as draws with Pareto-smoothed importance weights.

        Raises:
            ValueError: if k̂ shows that the weights cannot be trusted.
        """
        return self.draws.reweighted(as_keys(key, 0, "key"), num_samples)

    @property
    def _shown_alpha(self) -> str:
        return "a schedule" if callable(self.alpha) else f"{float(self.alpha):g}"
