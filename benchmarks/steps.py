"""Many training steps in one call: ours, the peers', and the matrix products alone."""

from itertools import pairwise

import jax
import jax.numpy as jnp
import numpyro
import numpyro.distributions as dist
import optax
from numpyro.infer import SVI, Trace_ELBO
from numpyro.infer.autoguide import AutoNormal

import bbalpha as bb
from bbalpha.engine.batches import Rows, no_order
from bbalpha.engine.compiling import Compiled
from bbalpha.engine.epochs import run_steps
from bbalpha.engine.replicas import replica_runner

ALPHA = 0.5
RATE = 1e-3


def ours(problem, num_steps, resample_every=1, sample_chunk=None, run=run_steps):
    """The compiled loop inside `bb.fit`."""
    state = state_of(problem, jax.random.key(0), resample_every, sample_chunk)
    rows = rows_of(problem)
    order = no_order(rows, problem.batch_size)
    num_steps = jnp.asarray(num_steps)
    return lambda: run(state, rows, order, num_steps, problem.batch_size)[0]


def replicas(problem, num_steps, num_replicas):
    """The compiled loop inside `bb.fit_many`."""
    keys = jax.random.split(jax.random.key(0), num_replicas)
    state = jax.vmap(lambda key: state_of(problem, key))(keys)
    rows = rows_of(problem)
    size = problem.batch_size
    order = no_order(rows, size, state.step.shape)
    run = replica_runner(rows, num_replicas, size, None)
    num_steps = jnp.asarray(num_steps)
    return lambda: run(state, order=order, num_steps=num_steps)[0]


def naive(problem, num_steps, resample_every=1):
    """The energy as one writes it first: `jax.vmap`, `jax.random.normal`, `logsumexp`."""
    start, unflatten = jax.flatten_util.ravel_pytree(problem.plain_params)
    num_data, num_samples, take = problem.num_data, problem.num_samples, _batches(problem)
    optimizer = optax.adam(RATE)
    extra = () if problem.hyperparams is None else (problem.hyperparams,)

    def energy(variables, batch, noise):
        mean, log_variance, extra = variables
        params = mean + jnp.exp(0.5 * log_variance) * noise
        log_q = jax.scipy.stats.norm.logpdf(params, mean, jnp.exp(0.5 * log_variance)).sum(axis=1)
        log_prior = jax.scipy.stats.norm.logpdf(params).sum(axis=1)
        log_site = (log_q - log_prior) / num_data
        values = jax.vmap(lambda one: problem.plain(unflatten(one), batch, *extra))(params)
        ratio = ALPHA * (values - log_site[:, None])
        power_mean = (jax.nn.logsumexp(ratio, axis=0) - jnp.log(num_samples)) / ALPHA
        return -num_data * jnp.mean(power_mean)

    def body(index, carry):
        variables, optimizer_state = carry
        key = jax.random.fold_in(jax.random.key(0), index // resample_every)
        noise = jax.random.normal(key, (num_samples, start.size))
        gradient = jax.grad(energy)(variables, take(index), noise)
        updates, optimizer_state = optimizer.update(gradient, optimizer_state)
        return optax.apply_updates(variables, updates), optimizer_state

    variables = (start, jnp.full_like(start, -10.0), extra)
    run = jax.jit(lambda carry: jax.lax.fori_loop(0, num_steps, body, carry))
    return lambda: run((variables, optimizer.init(variables)))


def numpyros(problem, num_steps):
    """NumPyro's `Trace_ELBO` with vectorized particles, on minibatches that all particles share."""
    leaves, structure = jax.tree.flatten(problem.plain_params)
    num_data, size, take = problem.num_data, problem.batch_size, _batches(problem)

    def model(batch):
        params = structure.unflatten(
            numpyro.sample(f"w{i}", dist.Normal(0.0, 1.0).expand(leaf.shape).to_event(leaf.ndim))
            for i, leaf in enumerate(leaves)
        )
        extra = ()
        if problem.hyperparams is not None:
            extra = (numpyro.param("hyperparams", problem.hyperparams),)
        with numpyro.plate("data", size), numpyro.handlers.scale(scale=num_data / size):
            numpyro.factor("log_likelihood", problem.plain(params, batch, *extra))

    elbo = Trace_ELBO(num_particles=problem.num_samples, vectorize_particles=True)
    guide = AutoNormal(model, init_scale=0.01)
    svi = SVI(model, guide, numpyro.optim.Adam(RATE), elbo)
    state = svi.init(jax.random.key(0), take(0))
    body = lambda index, state: svi.update(state, take(index))[0]  # noqa: E731
    run = jax.jit(lambda state: jax.lax.fori_loop(0, num_steps, body, state))
    return lambda: run(state)


def lightnings(problem, num_steps):
    """Steps of lightning-uq-box's `BNN_VI_Regression`, the only other live BB-α."""
    import torch

    # A torchvision built for CUDA lacks its operators under a torch built for CPU, and does not
    # import. None of them is used here.
    missing = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            missing.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    from lightning_uq_box.uq_methods import BNN_VI_Regression
    from lightning_uq_box.uq_methods.loss_functions import EnergyAlphaDivergence

    first, hidden, last = problem.layers
    network = torch.nn.Sequential(
        torch.nn.Linear(first, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, last)
    )
    method = BNN_VI_Regression(network, n_mc_samples_train=problem.num_samples, alpha=ALPHA)
    method.energy_loss_module = EnergyAlphaDivergence(N=problem.num_data, alpha=ALPHA)
    method.log = lambda *_, **__: None  # no trainer, no logger
    optimizer = torch.optim.Adam(method.parameters(), lr=RATE)
    inputs, targets = (torch.tensor(array[: problem.batch_size]) for array in problem.data)

    def run():
        for _ in range(num_steps):
            optimizer.zero_grad()
            method.training_step({"input": inputs, "target": targets}, 0).backward()
            optimizer.step()

    return run


def products(problem, num_steps, again=True):
    """The matrix products of the steps alone: forward, backward, and the recomputed forward.

    They are compiled with the options of our steps, with which they are faster than without.
    Where all draws fit into one chunk nothing is recomputed, and layer one of all draws is a single
    product.
    """
    one_by_one = problem.name == "(c)"
    recomputed = one_by_one and again
    first, *_ = problem.layers
    inputs = jnp.asarray(problem.data[0][: problem.batch_size])
    columns = 1 if one_by_one else problem.num_samples
    weights = [
        jnp.full((a, b * (columns if a == first else 1)), 1e-2) for a, b in pairwise(problem.layers)
    ]

    def of_draw(_, carry):
        units = [inputs + carry]
        for matrix in weights[: len(weights) if one_by_one else 1]:
            units.append(units[-1] @ matrix)
        total = units[-1][0, 0]
        if recomputed:
            again = units[0] + total
            for matrix in weights:
                again = again @ matrix
            total += again[0, 0]
        back = units[-1] + total
        for layer in reversed(range(len(units) - 1)):
            total += (units[layer].T @ back)[0, 0]
            if layer > 0:
                back = back @ weights[layer].T
        return carry + 1e-30 * total

    num_loops = num_steps * problem.num_samples // columns
    return Compiled(lambda: jax.lax.fori_loop(0, num_loops, of_draw, jnp.zeros(())))


def state_of(problem, key, resample_every=1, sample_chunk=None):
    """The state before the first step."""
    return bb.init(
        problem.log_likelihood,
        problem.params,
        num_data=problem.num_data,
        key=key,
        alpha=ALPHA if problem.num_samples > 1 else 0.0,  # with one draw no α matters
        hyperparams=problem.hyperparams,
        num_samples=problem.num_samples,
        resample_every=resample_every,
        sample_chunk=sample_chunk,
    )


def rows_of(problem):
    """The data on the device."""
    data = jax.tree.map(jnp.asarray, problem.data)
    return Rows(data, jnp.ones(problem.num_data), jnp.asarray(problem.num_data))


def _batches(problem):
    """A function from the step to its minibatch, for those who have no order of their own."""
    data = jax.tree.map(jnp.asarray, problem.data)
    rows = jax.random.permutation(jax.random.key(1), problem.num_data)
    num_starts = problem.num_data - problem.batch_size

    def take(step):
        start = (step * problem.batch_size) % num_starts
        taken = jax.lax.dynamic_slice(rows, (start,), (problem.batch_size,))
        return jax.tree.map(lambda leaf: leaf[taken], data)

    return take
