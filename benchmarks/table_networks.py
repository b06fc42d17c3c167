"""More peers of `quality.py`: CatBoost, a multi-layer perceptron, an ensemble of five networks."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import optax
from scipy import stats
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from table_methods import TAILS, Prediction, encoded, gaussian, of_classes, of_classifier

NUM_MEMBERS = 5
HIDDEN = 50
NUM_EPOCHS, BATCH_SIZE, RATE = 400, 32, 1e-2
PATIENCE_SHARE = 0.1  # of the rows, held out by each member to choose its epoch


def mlp(problem):
    """scikit-learn's perceptron with 50 hidden units and its own defaults otherwise."""
    model = MLPClassifier((HIDDEN,), max_iter=1000, random_state=problem.seed)
    return of_classifier(problem, make_pipeline(StandardScaler(), model))


def catboost(problem):
    """Boosted trees with a mean and a deviation, or classes, stopped by a held-out tenth."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    settings = {"random_seed": problem.seed, "verbose": False, "thread_count": 1}
    settings["allow_writing_files"] = False
    settings["early_stopping_rounds"] = 50
    order = np.random.default_rng(problem.seed).permutation(len(problem.train_target))
    held_out, training = np.split(order, [max(1, round(PATIENCE_SHARE * len(order)))])
    inputs, target = problem.train_inputs, problem.train_target
    if problem.kind in ("binary", "multiclass"):
        model = CatBoostClassifier(**settings)
        is_known = np.isin(target[held_out], target[training])
        some = held_out[is_known]
        model.fit(inputs[training], target[training], eval_set=(inputs[some], target[some]))
        return of_classes(problem, model.classes_, model.predict_proba(problem.test_inputs))
    model = CatBoostRegressor(loss_function="RMSEWithUncertainty", **settings)
    center, scale = target.mean(), target.std()
    target = (target - center) / scale
    model.fit(inputs[training], target[training], eval_set=(inputs[held_out], target[held_out]))
    mean, variance = model.predict(problem.test_inputs).T
    return gaussian(problem, center + scale * mean, scale * np.sqrt(variance))


def ensemble(problem):
    """Five networks that predict a mean and a variance, or classes, each with its best epoch.

    As in deep ensembles, members differ in their starts and orders of rows, and a mixture of their
    predictions is scored. Each holds out its own tenth of the rows to choose the epoch by.
    """
    scaler = StandardScaler().fit(problem.train_inputs)
    inputs, new = scaler.transform(problem.train_inputs), scaler.transform(problem.test_inputs)
    is_classes = problem.kind in ("binary", "multiclass")
    if is_classes:
        target, num_outputs = problem.train_target, problem.num_classes
    else:
        center, scale = problem.train_target.mean(), problem.train_target.std()
        target, num_outputs = (problem.train_target - center) / scale, 2
    outputs = np.stack(
        [
            _member(inputs, target, new, num_outputs, is_classes, NUM_MEMBERS * problem.seed + k)
            for k in range(NUM_MEMBERS)
        ]
    ).astype(float)
    if is_classes:
        shifted = np.exp(outputs - outputs.max(axis=-1, keepdims=True))
        probabilities = (shifted / shifted.sum(axis=-1, keepdims=True)).mean(axis=0)
        return of_classes(problem, np.arange(problem.num_classes), probabilities)
    means, deviations = (
        center + scale * outputs[..., 0],
        scale * np.sqrt(_variance(outputs[..., 1])),
    )
    return _mixture(problem, means, deviations)


def _mixture(problem, means, deviations):
    """The prediction of a mixture of Gaussians of equal weight."""
    densities = stats.norm.logpdf(problem.test_target, means, deviations)
    log_densities = np.logaddexp.reduce(densities) - np.log(len(means))
    mean = means.mean(axis=0)
    deviation = np.sqrt((deviations**2).mean(axis=0) + means.var(axis=0))
    ends = [_quantile(means, deviations, tail) for tail in TAILS]
    return Prediction(log_densities, mean, deviation, np.stack(ends, axis=-1))


def _quantile(means, deviations, level):
    low, high = (means - 10 * deviations).min(axis=0), (means + 10 * deviations).max(axis=0)
    for _ in range(60):
        middle = (low + high) / 2
        is_below = stats.norm.cdf(middle, means, deviations).mean(axis=0) < level
        low, high = np.where(is_below, middle, low), np.where(is_below, high, middle)
    return (low + high) / 2


def _variance(output):
    return np.logaddexp(0, output) + 1e-6


def _member(inputs, target, new, num_outputs, is_classes, seed):
    """The outputs of one network for new rows."""
    order = np.random.default_rng(seed).permutation(len(target))
    num_held_out = max(1, round(PATIENCE_SHARE * len(target)))
    held_out, training = order[:num_held_out], order[num_held_out:]
    dtype = jnp.int32 if is_classes else jnp.float32
    data = [
        (jnp.asarray(inputs[rows], jnp.float32), jnp.asarray(target[rows], dtype))
        for rows in (training, held_out)
    ]
    num_steps = NUM_EPOCHS * -(-len(training) // BATCH_SIZE)
    num_epochs = NUM_EPOCHS if num_steps <= 12_000 else max(40, 12_000 * NUM_EPOCHS // num_steps)
    trained = _trained(jax.random.key(seed), *data, num_outputs, is_classes, num_epochs)
    return np.asarray(_outputs(trained, jnp.asarray(new, jnp.float32)))


@partial(jax.jit, static_argnums=(3, 4, 5))
def _trained(key, training, held_out, num_outputs, is_classes, num_epochs):
    """The parameters at the epoch with the best loss on the held-out rows."""
    inputs, target = training
    batch_size = min(BATCH_SIZE, len(target))
    num_batches = len(target) // batch_size
    first, second, loop = jax.random.split(key, 3)
    shapes = (inputs.shape[1], HIDDEN), (HIDDEN, num_outputs)
    weights = [
        jax.random.normal(k, shape) * (2 / shape[0]) ** 0.5
        for k, shape in zip((first, second), shapes, strict=True)
    ]
    params = [(w, jnp.zeros(w.shape[1])) for w in weights]
    optimizer = optax.adam(optax.cosine_decay_schedule(RATE, num_epochs * num_batches))

    def loss(params, inputs, target):
        outputs = _outputs(params, inputs)
        if is_classes:
            return optax.softmax_cross_entropy_with_integer_labels(outputs, target).mean()
        variance = jax.nn.softplus(outputs[:, 1]) + 1e-6
        return 0.5 * jnp.mean(jnp.log(variance) + (target - outputs[:, 0]) ** 2 / variance)

    def step(state, rows):
        params, moments = state
        slopes = jax.grad(loss)(params, inputs[rows], target[rows])
        updates, moments = optimizer.update(slopes, moments)
        return (optax.apply_updates(params, updates), moments), None

    def epoch(state, key):
        rows = jax.random.permutation(key, len(target))[: num_batches * batch_size]
        found, _ = jax.lax.scan(step, state[0], rows.reshape(num_batches, batch_size))
        score = loss(found[0], *held_out)
        is_better = score < state[1]
        keep = jax.tree.map(lambda a, b: jnp.where(is_better, a, b), found[0], state[2])
        return (found, jnp.where(is_better, score, state[1]), keep), None

    start = (params, optimizer.init(params)), jnp.inf, params
    return jax.lax.scan(epoch, start, jax.random.split(loop, num_epochs))[0][2]


def _outputs(params, inputs):
    (first, first_bias), (last, last_bias) = params
    return jax.nn.relu(inputs @ first + first_bias) @ last + last_bias


NUMBERS, CLASSES = ("regression",), ("binary", "multiclass")
PEERS = {
    "ensemble": (ensemble, NUMBERS + CLASSES),
    "mlp": (mlp, CLASSES),
    "catboost": (catboost, NUMBERS + CLASSES),
}


def predict(name, problem):
    """The prediction of a method, or None if it is not for this problem."""
    method, kinds = PEERS[name]
    return method(encoded(problem)) if problem.kind in kinds else None
