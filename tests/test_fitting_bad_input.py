"""Bad input gets one clear sentence with real values, before anything is compiled."""

import functools
import re

import equinox as eqx
import jax
import jax.numpy as jnp
import jaxtyping
import numpy as np
import pytest

import bbalpha as bb

NUM_DATA = 6
KEY = jax.random.key(0)
INPUTS = np.linspace(-1.0, 1.0, 2 * NUM_DATA).reshape(NUM_DATA, 2)
TARGETS = INPUTS @ np.array([1.0, -2.0])


@pytest.fixture(autouse=True)
def _without_type_checks():
    """Messages as users see them: beartype, which only tests install, must not speak first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


def log_likelihood(weights, batch):
    inputs, targets = batch
    return jax.scipy.stats.norm.logpdf(targets, inputs @ weights)


def log_likelihood_of_tree(params, batch):
    inputs, targets = batch
    return jax.scipy.stats.norm.logpdf(targets, inputs @ params["weights"] + params["bias"])


def fit(log_likelihood=log_likelihood, params=None, data=(INPUTS, TARGETS), **settings):
    params = jnp.zeros(2) if params is None else params
    settings = {"num_epochs": 2, "num_samples": 3, "key": KEY} | settings
    return bb.fit(log_likelihood, params, data, **settings)


def with_value(array, row, value):
    changed = np.array(array)
    changed[row] = value
    return changed


def exactly(message):
    """The whole message, a line that ends like a sentence; JAX may add a line on tracebacks."""
    assert "\n" not in message
    assert message.endswith(".")
    return f"^{re.escape(message)}(\n|$)"


TREE = {"weights": jnp.zeros(2), "bias": jnp.zeros(())}
WIDE_PRIOR = bb.DiagonalGaussian(jnp.zeros(3), jnp.zeros(3))
FULL_PRIOR = bb.FullGaussian(jnp.zeros(2), jnp.zeros(2), jnp.zeros((2, 2)))
NO_LOWER_BOUND = (
    "alpha must not exceed the number of data points, beyond which the energy has no lower bound; "
)


BAD_VALUES = {
    "alpha above N": (
        {"alpha": 7},
        NO_LOWER_BOUND + "got alpha=7.0 with 6 data points.",
    ),
    "alpha above the total weight": (
        {"alpha": 4.0, "sample_weight": np.full(NUM_DATA, 0.5)},
        NO_LOWER_BOUND + "got alpha=4.0 with 3 data points.",
    ),
    "alpha NaN": ({"alpha": np.nan}, "alpha must be a finite number; got alpha=nan."),
    "alpha infinite": ({"alpha": -np.inf}, "alpha must be a finite number; got alpha=-inf."),
    "alpha above N at some step": (
        {"alpha": lambda step: 1.0 + 6.0 * step},
        NO_LOWER_BOUND + "got alpha=7.0 with 6 data points.",
    ),
    "alpha NaN at some step": (
        {"alpha": lambda step: jnp.where(step == 1, jnp.nan, 0.5)},
        "alpha must be a finite number; got alpha=nan.",
    ),
    "no draws": ({"num_samples": 0}, "num_samples must be at least 1; got num_samples=0."),
    "chunks of no draws": (
        {"sample_chunk": 0},
        "sample_chunk must be at least 1; got sample_chunk=0.",
    ),
    "noise for no steps": (
        {"resample_every": 0},
        "resample_every must be at least 1; got resample_every=0.",
    ),
    "no epochs": ({"num_epochs": 0}, "num_epochs must be at least 1; got num_epochs=0."),
    "epochs without end": (
        {"num_epochs": 10**30},
        f"num_epochs must be at most 2,147,483,647; got num_epochs={10**30}.",
    ),
    "more steps than can be counted": (
        {"num_epochs": 2**31 - 1, "batch_size": 1},
        "num_epochs must make at most 2,147,483,647 steps; got num_epochs=2147483647 with 6 "
        "minibatches each.",
    ),
    "draws beyond memory": (
        {"num_samples": 10**12},
        f"num_samples must be at most 1,000,000; got num_samples={10**12}.",
    ),
    "empty batches": ({"batch_size": 0}, "batch_size must be at least 1; got batch_size=0."),
    "a schedule of vectors": (
        {"alpha": lambda step: jnp.zeros(2) + step},
        "alpha must return one number for each step; got shape (2,).",
    ),
    "log-likelihood summed": (
        {"log_likelihood": lambda weights, batch: jnp.sum(log_likelihood(weights, batch))},
        "log_likelihood must return one number per data point; got shape () for 6 data points.",
    ),
    "log-likelihood of some data": (
        {"log_likelihood": lambda weights, batch: log_likelihood(weights, batch)[1:]},
        "log_likelihood must return one number per data point; got shape (5,) for 6 data points.",
    ),
    "log-likelihood as a column": (
        {"log_likelihood": lambda weights, batch: log_likelihood(weights, batch)[:, None]},
        "log_likelihood must return one number per data point; got shape (6, 1) for 6 data points.",
    ),
    "log-likelihood without return": (
        {"log_likelihood": lambda weights, batch: None},
        "log_likelihood must return one number per data point; got NoneType for 6 data points.",
    ),
    "log-likelihood of all data whatever the batch": (
        {
            "log_likelihood": lambda weights, batch: log_likelihood(weights, (INPUTS, TARGETS)),
            "batch_size": 1,
        },
        "log_likelihood must return one number per data point; got shape (6,) for 1 data points.",
    ),
    "lengths differ": (
        {"data": (INPUTS, TARGETS[:4])},
        "data must have the same number of rows in every array; "
        "got data[0] with 6, data[1] with 4.",
    ),
    "no rows": (
        {"data": (INPUTS[:0], TARGETS[:0])},
        "data must have at least one row; got data[0] of shape (0, 2).",
    ),
    "no arrays": ({"data": ()}, "data must hold at least one array; got data=()."),
    "NaN in data": (
        {"data": {"inputs": INPUTS, "targets": with_value(TARGETS, 3, np.nan)}},
        "data['targets'] must be finite; got 1 NaN or infinite values, the first in row 3.",
    ),
    "infinity in data": (
        {"data": (jnp.asarray(with_value(INPUTS, (2, 1), np.inf)), TARGETS)},
        "data[0] must be finite; got 1 NaN or infinite values, the first in row 2.",
    ),
    "text in data": (
        {"data": (INPUTS, np.array(list("abcdef")))},
        "data[1] must be numeric; got an array of dtype <U1.",
    ),
    "integers of more than 32 bits": (
        {"data": (np.full((NUM_DATA, 2), 1_700_000_000_000), TARGETS)},
        "data[0] must lie between -2147483648 and 2147483647, the range of int32; got values from "
        "1700000000000 to 1700000000000. Convert them to floating point or standardize them.",
    ),
    "numbers beyond 32 bits": (
        {"data": (with_value(INPUTS, (2, 1), 1e39), TARGETS)},
        "data[0] must lie between -3.4028234663852886e+38 and 3.4028234663852886e+38, the range of "
        f"float32; got values from {INPUTS.min()} to 1e+39. Standardize them.",
    ),
    "prior zero": ({"prior": 0.0}, "prior must hold positive standard deviations; got prior=0."),
    "prior negative for one parameter": (
        {"prior": jnp.array([1.0, -2.0])},
        "prior must hold positive standard deviations; got prior=-2.",
    ),
    "prior NaN": (
        {"prior": float("nan")},
        "prior must hold positive standard deviations; got prior=nan.",
    ),
    "prior tree of another structure": (
        {"log_likelihood": log_likelihood_of_tree, "params": TREE, "prior": {"weights": 1.0}},
        "prior must be a number, a function, a tree like params or a bb.Distribution; got a tree "
        "PyTreeDef({'weights': *}) where params is PyTreeDef({'bias': *, 'weights': *}).",
    ),
    "prior leaf of another shape": (
        {
            "log_likelihood": log_likelihood_of_tree,
            "params": TREE,
            "prior": {"weights": jnp.ones(3), "bias": 1.0},
        },
        "prior['weights'] must be a number or have shape (2,), as in params; got shape (3,).",
    ),
    "prior over other parameters": (
        {"prior": WIDE_PRIOR},
        "prior must be over the 2 parameters of the model; got a DiagonalGaussian over 3.",
    ),
    "prior learned though it is a family": (
        {"prior": FULL_PRIOR, "learn_prior": True},
        "learn_prior must be False unless the prior is a diagonal Gaussian; "
        "got learn_prior=True with a FullGaussian.",
    ),
    "factors of another tree": (
        {"log_likelihood": log_likelihood_of_tree, "params": TREE, "learn_prior": {"bias": 1.0}},
        "learn_prior must be True, False or a tree like params; got a tree PyTreeDef({'bias': *}) "
        "where params is PyTreeDef({'bias': *, 'weights': *}).",
    ),
    "factors of another shape": (
        {
            "log_likelihood": log_likelihood_of_tree,
            "params": TREE,
            "learn_prior": {"bias": 1.0, "weights": np.ones(3)},
        },
        "learn_prior['weights'] must hold positive factors of a shape that broadcasts to (2,); "
        "got [1, 1, 1] of shape (3,).",
    ),
    "factors not positive": (
        {"learn_prior": np.array([1.0, 0.0])},
        "learn_prior must hold positive factors of a shape that broadcasts to (2,); "
        "got [1, 0] of shape (2,).",
    ),
    "params empty": ({"params": {}}, "params must hold at least one number; got none in {}."),
    "params with NaN": (
        {"params": jnp.array([0.0, jnp.nan])},
        "params must be finite; got 1 NaN or infinite values.",
    ),
    "weights of some rows": (
        {"sample_weight": np.ones(5)},
        "sample_weight must have shape (6,), one number per data point; got shape (5,).",
    ),
    "weights in a column": (
        {"sample_weight": np.ones((NUM_DATA, 1))},
        "sample_weight must have shape (6,), one number per data point; got shape (6, 1).",
    ),
    "weight negative": (
        {"sample_weight": with_value(np.ones(NUM_DATA), 2, -0.5)},
        "sample_weight must be finite, not negative and not all zero; got values from -0.5 to 1.0.",
    ),
    "weight NaN": (
        {"sample_weight": with_value(np.ones(NUM_DATA), 2, np.nan)},
        "sample_weight must be finite, not negative and not all zero; got values from nan to nan.",
    ),
    "weights all zero": (
        {"sample_weight": np.zeros(NUM_DATA)},
        "sample_weight must be finite, not negative and not all zero; got values from 0.0 to 0.0.",
    ),
    "patience of no epochs": (
        {"early_stopping": bb.EarlyStopping((INPUTS, TARGETS), patience=0)},
        "early_stopping.patience must be at least 1; got early_stopping.patience=0.",
    ),
    "score every no epochs": (
        {"early_stopping": bb.EarlyStopping((INPUTS, TARGETS), every=0)},
        "early_stopping.every must be at least 1; got early_stopping.every=0.",
    ),
    "NaN in held-out data": (
        {"early_stopping": bb.EarlyStopping((INPUTS, with_value(TARGETS, 0, np.nan)))},
        "early_stopping.data[1] must be finite; got 1 NaN or infinite values, the first in row 0.",
    ),
    "held-out weights of another length": (
        {"early_stopping": bb.EarlyStopping((INPUTS, TARGETS), sample_weight=np.ones(2))},
        f"early_stopping.sample_weight must have shape ({len(INPUTS)},), one number per data "
        "point; got shape (2,).",
    ),
}


@pytest.mark.parametrize("name", BAD_VALUES)
def test_a_value_that_breaks_a_rule_gets_a_sentence(name):
    settings, message = BAD_VALUES[name]
    with pytest.raises(ValueError, match=exactly(message)):
        fit(**settings)


BAD_KINDS = {
    "log-likelihood is not a function": (
        {"log_likelihood": 3},
        "log_likelihood must be a function of params and batch; got int.",
    ),
    "params of integers": (
        {"params": jnp.zeros(2, int)},
        "params must hold arrays of floating-point numbers; got params of type int32.",
    ),
    "a leaf of params is a Python number": (
        {"params": {"weights": jnp.zeros(2), "bias": 0.0}},
        "params must hold arrays of floating-point numbers; got params['bias'] of type float.",
    ),
    "hyperparams of integers": (
        {"hyperparams": {"log_variance": 0}},
        "hyperparams must hold arrays of floating-point numbers; "
        "got hyperparams['log_variance'] of type int32.",
    ),
    "key is a seed": (
        {"key": 0},
        "key must be made by jax.random, such as jax.random.key(0); got 0.",
    ),
    "keys for one fit": (
        {"key": jax.random.split(KEY, 3)},
        "key must be made by jax.random, such as jax.random.key(0); "
        "got an array of shape (3,) and type key<fry>.",
    ),
    "part of an epoch": (
        {"num_epochs": 2.5},
        "num_epochs must be a whole number; got num_epochs=2.5.",
    ),
    "a flag as a count": (
        {"num_epochs": True},
        "num_epochs must be a whole number; got num_epochs=True.",
    ),
    "complex alpha": (
        {"alpha": 0.5 + 1j},
        "alpha must be a number or a function of the step; got alpha=(0.5+1j).",
    ),
    "alpha is a word": (
        {"alpha": "half"},
        "alpha must be a number or a function of the step; got alpha='half'.",
    ),
    "family is a class without a start": (
        {"family": dict},
        "family must be a class of distributions such as bb.DiagonalGaussian, an instance, or a "
        f"function of the mean and the prior; got {dict!r}.",
    ),
    "family is a word": (
        {"family": "full"},
        "family must be a class of distributions such as bb.DiagonalGaussian, an instance, or a "
        "function of the mean and the prior; got 'full'.",
    ),
    "family is no distribution": (
        {"family": lambda mean, prior: 3},
        "family must make a bb.Distribution; got int.",
    ),
    "two powers": (
        {"alpha": [0.5, 1.0]},
        "alpha must be a number or a function of the step; got alpha=[0.5, 1.0].",
    ),
    "a module that was not split": (
        {"params": {"weights": jnp.zeros(2), "activation": jax.nn.relu}},
        "params must hold arrays of floating-point numbers; got params['activation'] of type "
        f"{type(jax.nn.relu).__name__}. Split a module by "
        "eqx.partition(module, eqx.is_inexact_array).",
    ),
    "optimizer is a rate": (
        {"optimizer": 1e-3},
        "optimizer must be an optax optimizer, such as optax.adam(1e-3); got optimizer=0.001.",
    ),
}


@pytest.mark.parametrize("name", BAD_KINDS)
def test_a_thing_of_the_wrong_kind_gets_a_sentence(name):
    settings, message = BAD_KINDS[name]
    with pytest.raises(TypeError, match=exactly(message)):
        fit(**settings)


def one_output(weights, inputs):
    return inputs @ weights[:, None]


def three_outputs(weights, inputs):
    return inputs @ jnp.stack([weights, -weights, 0 * weights], axis=1)


LABELS = np.array([0.0, 1.0, 0.0, 1.0, 1.0, 0.0])
BAD_LABELS = {
    "signs for Probit": (
        (bb.Probit(), one_output, 2 * LABELS - 1),
        "targets must be 0 or 1 for Probit; got -1.0. Map labels −1, +1 by (labels + 1) / 2.",
    ),
    "a third class for Bernoulli": (
        (bb.Bernoulli(), one_output, with_value(LABELS, 4, 2.0)),
        "targets must be 0 or 1 for Bernoulli; got 2.0. Map labels −1, +1 by (labels + 1) / 2.",
    ),
    "classes from 1 on for Categorical": (
        (bb.Categorical(), three_outputs, np.array([1, 2, 3, 1, 2, 3])),
        "targets must be whole numbers from 0 to 2 for Categorical; got 3.",
    ),
    "a fraction for Categorical": (
        (bb.Categorical(), three_outputs, with_value(LABELS, 1, 0.5)),
        "targets must be whole numbers from 0 to 2 for Categorical; got 0.5.",
    ),
    "a negative count for Poisson": (
        (bb.Poisson(), one_output, with_value(LABELS, 0, -3.0)),
        "targets must be non-negative whole numbers for Poisson; got -3.0.",
    ),
}


@pytest.mark.parametrize("array", [np.asarray, jnp.asarray], ids=["numpy", "jax"])
@pytest.mark.parametrize("name", BAD_LABELS)
def test_labels_that_a_likelihood_cannot_take_are_refused(name, array):
    (likelihood, model, labels), message = BAD_LABELS[name]

    def log_likelihood(weights, batch):
        inputs, labels = batch
        return likelihood.log_prob(model(weights, inputs), labels)

    with pytest.raises(ValueError, match=exactly(message)):
        fit(log_likelihood, data=(array(INPUTS), array(labels)))


@pytest.mark.parametrize("compile", [jax.jit, eqx.filter_jit, lambda f: jax.jit(eqx.filter_jit(f))])
def test_labels_are_seen_although_the_function_is_compiled(compile):
    @compile
    def log_likelihood(weights, batch):
        inputs, labels = batch
        return bb.Probit().log_prob(one_output(weights, inputs), labels)

    with pytest.raises(ValueError, match=r"^targets must be 0 or 1 for Probit; got -1\.0"):
        fit(log_likelihood, data=(INPUTS, 2 * LABELS - 1))
    posterior = fit(log_likelihood, data=(INPUTS, LABELS))
    with pytest.raises(ValueError, match=r"^targets must be 0 or 1 for Probit; got -1\.0"):
        posterior.log_density(log_likelihood, (INPUTS, 2 * LABELS - 1), key=KEY)


def test_labels_are_seen_although_the_function_takes_them_apart():
    def log_likelihood(weights, batch):
        return bb.Probit().log_prob(one_output(weights, batch[:, :2]), batch[:, 2:])

    table = jnp.asarray(np.column_stack([INPUTS, 2 * LABELS - 1]))
    with pytest.raises(ValueError, match=r"^targets must be 0 or 1 for Probit; got -1\.0"):
        fit(log_likelihood, data=table)


def test_labels_to_be_scored_that_a_likelihood_cannot_take_are_refused():
    def log_likelihood(weights, batch):
        inputs, labels = batch
        return bb.Probit().log_prob(one_output(weights, inputs), labels)

    posterior = fit(log_likelihood, data=(INPUTS, LABELS))
    with pytest.raises(ValueError, match=r"^targets must be 0 or 1 for Probit; got -1\.0"):
        posterior.log_density(log_likelihood, (INPUTS, 2 * LABELS - 1), key=KEY)


def test_a_function_that_needs_jax_arrays_may_be_given_numpy_data():
    def shifted(weights, batch):
        inputs, targets = batch
        return log_likelihood(weights, (inputs.at[:, 0].add(0.0), targets))

    np.testing.assert_array_equal(fit(shifted).mean, fit(log_likelihood).mean)


def test_labels_are_seen_although_jax_has_changed_them_and_the_weights_stay_abstract():
    kinds = []

    def log_likelihood(weights, batch):
        kinds.append(isinstance(weights, jax.core.Tracer))
        inputs, labels = batch
        labels = jnp.where(labels.at[0].set(1.0) > 0, labels, -1.0)
        return bb.Probit().log_prob(one_output(weights, inputs.at[:, 0].add(0.0)), labels[:, None])

    with pytest.raises(ValueError, match=r"^targets must be 0 or 1 for Probit; got -1\.0"):
        fit(log_likelihood, data=(INPUTS, LABELS))
    assert set(kinds) == {True}


@pytest.mark.parametrize("num_params", [1, 3])
def test_an_instance_for_other_parameters_is_refused(num_params):
    q = bb.DiagonalGaussian(jnp.zeros(num_params), jnp.zeros(num_params))
    message = (
        "family must have as many parameters as params, 2; "
        f"got a DiagonalGaussian over {num_params}."
    )
    with pytest.raises(ValueError, match=exactly(message)):
        fit(family=q)


def test_params_and_priors_may_be_numpy_numbers_of_any_width():
    wide = fit(log_likelihood_of_tree, {"weights": np.zeros(2), "bias": np.zeros(())}, prior=2.0)
    narrow = fit(log_likelihood_of_tree, TREE, prior=np.float32(2.0))
    assert wide.mean["bias"].dtype == jnp.float32
    np.testing.assert_array_equal(wide.mean["weights"], narrow.mean["weights"])


def test_keys_of_the_old_kind_give_the_same_fit():
    np.testing.assert_array_equal(fit(key=jax.random.PRNGKey(0)).mean, fit(key=KEY).mean)


def test_held_out_labels_that_a_likelihood_cannot_take_are_refused():
    def log_likelihood(weights, batch):
        inputs, labels = batch
        return bb.Probit().log_prob(one_output(weights, inputs), labels)

    held_out = bb.EarlyStopping((INPUTS, 2 * LABELS - 1))
    with pytest.raises(ValueError, match=r"^targets must be 0 or 1 for Probit; got -1\.0"):
        fit(log_likelihood, data=(INPUTS, LABELS), early_stopping=held_out)


def test_labels_of_every_replica_are_looked_at():
    def log_likelihood(weights, batch):
        inputs, labels = batch
        return bb.Probit().log_prob(one_output(weights, inputs), labels)

    data = (np.stack([INPUTS] * 2), np.stack([LABELS, 3 * LABELS]))
    keys = jax.random.split(KEY, 2)
    with pytest.raises(ValueError, match=r"^targets must be 0 or 1 for Probit; got 3\.0"):
        bb.fit_many(log_likelihood, jnp.zeros((2, 2)), data, keys=keys, data_axis=0)


def test_one_draw_at_alpha_other_than_zero_warns_that_alpha_has_no_effect():
    message = (
        "num_samples should exceed 1 when alpha is not 0, because with one draw the energy does "
        "not depend on alpha; got num_samples=1 with alpha=0.5."
    )
    init = functools.partial(
        bb.init, log_likelihood, jnp.zeros(2), num_data=NUM_DATA, key=KEY, num_samples=1
    )
    with pytest.warns(UserWarning, match=exactly(message)):
        init(alpha=0.5)
    init(alpha=0.0)  # without a warning, which would be an error here


def test_batches_larger_than_the_data_warn_and_hold_all_data():
    message = (
        "batch_size should not exceed the number of data points; got batch_size=50 with 6 data "
        "points, which now make one batch."
    )
    with pytest.warns(UserWarning, match=exactly(message)):
        posterior = fit(batch_size=50)
    assert posterior.info.num_steps == 2
    np.testing.assert_array_equal(posterior.mean, fit(batch_size=NUM_DATA).mean)


def test_init_refuses_what_fit_refuses():
    init = functools.partial(bb.init, log_likelihood, num_data=NUM_DATA, key=KEY)
    with pytest.raises(
        ValueError, match=exactly(NO_LOWER_BOUND + "got alpha=7.0 with 6 data points.")
    ):
        init(jnp.zeros(2), alpha=7.0)
    with pytest.raises(TypeError, match=r"^params must hold arrays of floating-point numbers"):
        init(jnp.zeros(2, int))


@pytest.mark.parametrize("num_data", [0, -5, np.nan, np.inf])
def test_init_refuses_a_number_of_data_that_is_none(num_data):
    message = f"num_data must be positive and finite; got num_data={num_data}."
    with pytest.raises(ValueError, match=exactly(message)):
        bb.init(log_likelihood, jnp.zeros(2), num_data=num_data, key=KEY)


@pytest.mark.parametrize("weights", [None, np.ones(NUM_DATA)])
@pytest.mark.parametrize(
    ("change", "shape"), [(jnp.sum, "()"), (lambda values: values[:, None], "(6, 1)")]
)
def test_a_step_refuses_a_log_likelihood_of_another_shape(change, shape, weights):
    state = bb.init(
        lambda params, batch: change(log_likelihood(params, batch)),
        jnp.zeros(2),
        num_data=NUM_DATA,
        key=KEY,
    )
    given = "" if weights is None else " for 6 data points"
    message = f"log_likelihood must return one number per data point; got shape {shape}{given}."
    with pytest.raises(ValueError, match=exactly(message)):
        bb.step(state, (INPUTS, TARGETS), weights)


KEYS = jax.random.split(KEY, 3)
STARTS = jnp.zeros((3, 2))
OWN_DATA = {"data": (np.stack([INPUTS] * 3), np.stack([TARGETS] * 3)), "data_axis": 0}
BAD_REPLICAS = {
    "starts for other replicas": (
        {"params": {"weights": STARTS, "bias": jnp.zeros(2)}},
        "params['bias'] must have a leading axis of 3 replicas, one per key; got shape (2,).",
    ),
    "one start for all": (
        {"params": jnp.zeros(2)},
        "params must have a leading axis of 3 replicas, one per key; got shape (2,).",
    ),
    "data for other replicas": (
        {"data": (np.stack([INPUTS] * 3), np.stack([TARGETS] * 2)), "data_axis": 0},
        "data[1] must have a leading axis of 3 replicas, one per key; got shape (2, 6).",
    ),
    "data with the replicas behind": (
        {"data": (np.stack([INPUTS] * 3, 1), np.stack([TARGETS] * 3, 1)), "data_axis": 1},
        "data_axis must be None or 0; got data_axis=1.",
    ),
    "alpha above N for one replica": (
        {"alpha": [0.0, 7.0, 1.0]},
        NO_LOWER_BOUND + "got alpha=7.0 with 6 data points.",
    ),
    "alpha infinite for one replica": (
        {"alpha": [0.0, -np.inf, 1.0]},
        "alpha must be a finite number; got alpha=-inf.",
    ),
    "alphas for other replicas": (
        {"alpha": [0.0, 1.0]},
        "alpha must be one number or one for each of 3 replicas; got shape (2,).",
    ),
    "alpha above N at some step": (
        {"alpha": lambda step: 1.0 + 6.0 * step},
        NO_LOWER_BOUND + "got alpha=7.0 with 6 data points.",
    ),
    "alpha above the weight of a replica's own data": (
        {**OWN_DATA, "alpha": 4.0, "sample_weight": np.outer([1.0, 1.0, 0.5], np.ones(NUM_DATA))},
        NO_LOWER_BOUND + "got alpha=4.0 with 3 data points.",
    ),
    "weights of one replica all zero": (
        {**OWN_DATA, "sample_weight": np.outer([1.0, 0.0, 1.0], np.ones(NUM_DATA))},
        "sample_weight must be finite, not negative and not all zero; got values from 0.0 to 1.0.",
    ),
    "NaN in data": (
        {"data": (INPUTS, with_value(TARGETS, 5, np.nan))},
        "data[1] must be finite; got 1 NaN or infinite values, the first in row 5.",
    ),
    "no draws": ({"num_samples": 0}, "num_samples must be at least 1; got num_samples=0."),
    "log-likelihood summed": (
        {"log_likelihood": lambda weights, batch: jnp.sum(log_likelihood(weights, batch))},
        "log_likelihood must return one number per data point; got shape () for 6 data points.",
    ),
}


@pytest.mark.parametrize("name", BAD_REPLICAS)
def test_replicas_that_break_a_rule_get_a_sentence(name):
    settings, message = BAD_REPLICAS[name]
    settings = {
        "log_likelihood": log_likelihood,
        "params": STARTS,
        "data": (INPUTS, TARGETS),
        "keys": KEYS,
        "num_epochs": 2,
    } | settings
    with pytest.raises(ValueError, match=exactly(message)):
        bb.fit_many(**settings)


def test_replicas_cannot_be_stopped_early():
    keys = jax.random.split(KEY, 3)
    with pytest.raises(TypeError, match="unexpected keyword argument 'early_stopping'"):
        bb.fit_many(log_likelihood, STARTS, (INPUTS, TARGETS), keys=keys, early_stopping=None)
