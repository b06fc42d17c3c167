"""Three of NumPyro's example models over α, against NUTS: `python benchmarks/numpyro_models.py`.

Eight schools, a hierarchical logistic regression and a Poisson regression, the last two on
simulated data. All values of α share one compiled program, one guide, keys and steps.
"""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro
import numpyro.distributions as dist
import optax
from numpyro.infer import MCMC, NUTS, SVI, Predictive, Trace_ELBO, log_likelihood
from numpyro.infer.autoguide import AutoMultivariateNormal, AutoNormal

from bbalpha.interfaces.numpyro import BBAlphaELBO

ALPHAS = (-1.0, 0.0, 0.25, 0.5, 1.0)
NUM_STEPS, NUM_PARTICLES, NUM_DRAWS = 6000, 32, 4000

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0], np.float32)
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0], np.float32)


def schools(errors, effects=None):
    center = numpyro.sample("center", dist.Normal(0, 5))
    spread = numpyro.sample("spread", dist.HalfCauchy(5))
    with numpyro.plate("schools", len(errors)):
        shift = numpyro.sample("shift", dist.Normal(0, 1))
        numpyro.sample("y", dist.Normal(center + spread * shift, errors), obs=effects)


def hierarchical(inputs, groups, labels=None):
    center = numpyro.sample("center", dist.Normal(0, 2))
    spread = numpyro.sample("spread", dist.HalfNormal(1))
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([3]).to_event(1))
    with numpyro.plate("groups", 20):
        shift = numpyro.sample("shift", dist.Normal(0, 1))
    logits = center + spread * shift[groups] + inputs @ slopes
    with numpyro.plate("data", len(groups)):
        numpyro.sample("y", dist.Bernoulli(logits=logits), obs=labels)


def poisson(inputs, counts=None):
    slopes = numpyro.sample("slopes", dist.Normal(0, 1).expand([4]).to_event(1))
    level = numpyro.sample("level", dist.Normal(0, 2))
    with numpyro.plate("data", len(inputs)):
        numpyro.sample("y", dist.Poisson(jnp.exp(level + inputs @ slopes)), obs=counts)


def problems():
    """Model, guide, training arguments, held-out arguments, and the sites to compare."""
    random = np.random.default_rng(0)
    train = [0, 1, 2, 4, 5, 7]
    yield (
        "eight schools, six of them",
        *(schools, AutoNormal, (ERRORS[train], EFFECTS[train])),
        *((ERRORS[[3, 6]], EFFECTS[[3, 6]]), ("center", "spread")),
    )
    groups = np.repeat(np.arange(20), 30)
    inputs = random.normal(size=(600, 3)).astype(np.float32)
    logits = 0.5 + random.normal(size=20)[groups] + inputs @ [1.0, -1.0, 0.5]
    labels = (random.random(600) < 1 / (1 + np.exp(-logits))).astype(np.float32)
    first, rest = np.arange(600) % 3 == 0, np.arange(600) % 3 != 0
    yield (
        "hierarchical logistic regression",
        *(hierarchical, AutoMultivariateNormal, (inputs[first], groups[first], labels[first])),
        *((inputs[rest], groups[rest], labels[rest]), ("center", "spread", "slopes", "shift")),
    )
    inputs = random.normal(size=(240, 4)).astype(np.float32)
    counts = random.poisson(np.exp(0.3 + inputs @ [0.5, -0.5, 0.2, 0.0])).astype(np.float32)
    yield (
        "Poisson regression",
        *(poisson, AutoMultivariateNormal, (inputs[:80], counts[:80])),
        *((inputs[80:], counts[80:]), ("slopes", "level")),
    )


def trained(model, guide, args):
    """Functions from α, and of `Trace_ELBO`, to the parameters of the guide."""
    optimizer = optax.adam(optax.cosine_decay_schedule(0.02, NUM_STEPS))
    svi = SVI(model, guide, optimizer, Trace_ELBO(NUM_PARTICLES))
    start = svi.init(jax.random.key(0), *args)

    def run(loss):
        svi.loss = loss
        state, _ = jax.lax.scan(lambda state, _: svi.update(state, *args), start, length=NUM_STEPS)
        return svi.get_params(state)

    of_alpha = jax.jit(lambda alpha: run(BBAlphaELBO(alpha, NUM_PARTICLES)))
    return of_alpha, jax.jit(lambda: run(Trace_ELBO(NUM_PARTICLES)))


def scores(model, draws, exact, held_out, names, local):
    """Errors of means, ratios of deviations, and held-out log-likelihood."""
    distance, ratio = [], []
    for name in names:
        deviation = np.std(exact[name], axis=0)
        distance.append(np.abs(np.mean(draws[name], axis=0) - np.mean(exact[name], axis=0)))
        distance[-1] = np.ravel(distance[-1] / deviation)
        ratio.append(np.ravel(np.std(draws[name], axis=0) / deviation))
    ratio = np.concatenate(ratio)
    draws = {name: of for name, of in draws.items() if name not in local}
    if local:  # of new data points, from their own distribution
        predictive = Predictive(model, draws, return_sites=list(local))
        draws = draws | predictive(jax.random.key(7), *held_out[:-1])
    values = log_likelihood(model, draws, *held_out)["y"]
    score = np.mean(np.asarray(jax.nn.logsumexp(values, axis=0)) - np.log(NUM_DRAWS))
    return np.max(np.concatenate(distance)), ratio.min(), ratio.max(), score


def main():
    print("| model | guide | mean error | deviations | held-out log-likelihood |")
    print("|---|---|---|---|---|")
    for title, model, make_guide, args, held_out, names in problems():
        local = ("shift",) if model is schools else ()
        sampler = MCMC(
            NUTS(model, target_accept_prob=0.95),
            num_warmup=1000,
            num_samples=NUM_DRAWS,
            progress_bar=False,
        )
        sampler.run(jax.random.key(1), *args)
        exact = sampler.get_samples()
        guide = make_guide(model)
        of_alpha, of_trace = trained(model, guide, args)
        results = {f"α = {alpha:g}": of_alpha(alpha) for alpha in ALPHAS}
        results["`Trace_ELBO`"] = of_trace()
        rows = {"NUTS": scores(model, exact, exact, held_out, names, local)}
        for name, params in results.items():
            draws = guide.sample_posterior(
                jax.random.key(2), params, *args, sample_shape=(NUM_DRAWS,)
            )
            draws = {site: draws[site] for site in {*names, *local}}
            rows[name] = scores(model, draws, exact, held_out, names, local)
        for name, (error, low, high, score) in rows.items():
            print(
                f"| {title} | {name} | {error:.2f} | {low:.2f}–{high:.2f} | {score:.4f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
