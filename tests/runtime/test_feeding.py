"""Fits on rows from a source: right, resumed to the same bits, and ended without loss."""

import dataclasses
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import bbalpha as bb
from bbalpha.engine.loop import start_at
from bbalpha.planning import prepare_anywhere
from bbalpha.runtime.feeding import Feed
from bbalpha.runtime.sources import ArrayRows, Blocks

pytestmark = pytest.mark.filterwarnings("ignore::bbalpha.ConvergenceWarning")

RANDOM = np.random.default_rng(0)
INPUTS = RANDOM.normal(size=(203, 2)).astype(np.float32)
TARGETS = (INPUTS @ [1.0, -2.0] + 0.5 * RANDOM.normal(size=203)).astype(np.float32)
DATA = bb.Dataset(INPUTS, TARGETS)
DEVIATION = 0.5


def log_likelihood(weights, batch):
    return jax.scipy.stats.norm.logpdf(batch.targets, batch.inputs @ weights, DEVIATION)


class Rows(ArrayRows):
    """Rows whose reading may fail."""

    def __init__(self, data=DATA, failing=None):
        super().__init__(data, block_rows=20)
        self.failing = failing

    def read(self, block):
        rows = super().read(block)
        if block == self.failing:
            rows.inputs[7, 1] = np.nan
        return rows


def fit(data=None, **settings):
    settings = {"alpha": 0.0, "optimizer": "adam", "num_samples": 10, "num_epochs": 6} | settings
    data = Rows() if data is None else data
    return bb.fit(
        log_likelihood, jnp.zeros(2), data, key=jax.random.key(0), progress=False, **settings
    )


def exact_posterior():
    precision = np.eye(2) + INPUTS.T @ INPUTS / DEVIATION**2
    covariance = np.linalg.inv(precision)
    return covariance @ INPUTS.T @ TARGETS / DEVIATION**2, covariance


def test_natural_gradients_reach_the_exact_posterior():
    settings = {"optimizer": "natural", "num_samples": 50, "family": bb.FullGaussian}
    posterior = fit(num_epochs=400, **settings)
    mean, covariance = exact_posterior()
    assert posterior.info.stopped == "converged"
    np.testing.assert_allclose(posterior.mean, mean, atol=0.05 * np.sqrt(covariance.max()))
    np.testing.assert_allclose(posterior.variance, np.diag(covariance), rtol=0.1)


def test_the_energy_is_that_of_the_same_posterior_in_memory():
    posterior = fit(num_epochs=1)
    rows, plan, _ = prepare_anywhere(Rows(), None, "adam", 32, 1)
    assert isinstance(rows, Feed)
    assert plan.num_batches == 7
    state = bb.init(log_likelihood, jnp.zeros(2), num_data=203, key=jax.random.key(0), alpha=0.0)
    np.testing.assert_allclose(rows.energy(state), state.energy(DATA), rtol=2e-5)
    assert np.isfinite(posterior.energy)


def test_energies_of_epochs_are_means_of_their_batches():
    """A rate of zero leaves q where it is, so that every epoch has the energy of the start."""
    import optax

    posterior = fit(optimizer=optax.sgd(0.0), num_samples=2000, num_epochs=2)
    assert posterior.info.energies == pytest.approx([float(posterior.energy)] * 2, rel=0.02)


def test_batches_do_not_depend_on_where_a_chunk_begins():
    feed = Feed(Blocks(Rows()), 32)
    key = jax.random.key(3)
    whole = feed.batches(key, 0, 20)
    for begin in (1, 6, 7, 13):
        part = feed.batches(key, begin, 5)
        for leaf, other in zip(part.leaves, whole.leaves, strict=True):
            np.testing.assert_array_equal(leaf, other[begin : begin + 5])
        np.testing.assert_array_equal(part.weights, whole.weights[begin : begin + 5])
    order = feed.order(key)
    for step in range(20):
        rows, real = order.rows(step)
        np.testing.assert_array_equal(whole.leaves[1][step][real], TARGETS[rows[real]])


KINDS = {
    "adam": {},
    "shared noise": {"resample_every": 3},
    "natural": {"optimizer": "natural", "batch_size": 32, "num_epochs": 8},
    "early stopping": {
        "early_stopping": bb.EarlyStopping(
            bb.Dataset(INPUTS[:20], TARGETS[:20]), patience=2, num_samples=10
        )
    },
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_that_was_cut_off_goes_on_to_the_same_bits(kind, tmp_path, monkeypatch):
    whole = fit(**KINDS[kind])
    cut_off_after(monkeypatch, calls=3)
    checkpoint = bb.Checkpoint(tmp_path, seconds=0.0)
    with pytest.raises(MemoryError):
        fit(checkpoint=checkpoint, **KINDS[kind])
    monkeypatch.undo()
    resumed = fit(checkpoint=checkpoint, **KINDS[kind])
    np.testing.assert_array_equal(resumed.mean, whole.mean)
    np.testing.assert_array_equal(resumed.variance, whole.variance)
    assert resumed.info.energies == whole.info.energies
    assert resumed.info.held_out == whole.info.held_out
    assert resumed.energy == whole.energy


def cut_off_after(monkeypatch, calls):
    """Let the loop fail at a call, at a place in an epoch that few steps a call make odd."""
    monkeypatch.setattr("bbalpha.engine.loop.CHUNK_SECONDS", 1e-9)
    run, made = Feed._run, []

    def failing(self, program, state, order, num_steps):
        made.append(num_steps)
        if len(made) > calls + 1:
            raise MemoryError
        return run(self, program, state, order, num_steps)

    monkeypatch.setattr(Feed, "_run", failing)


def test_a_checkpoint_of_other_rows_is_refused(tmp_path):
    fit(checkpoint=tmp_path, num_epochs=1)
    other = Rows(DATA._replace(targets=TARGETS + 1))
    with pytest.raises(ValueError, match=r"of a fit that differs in data\."):
        fit(other, checkpoint=tmp_path, num_epochs=1)
    with pytest.raises(ValueError, match="of a fit that differs in data"):
        fit(DATA, checkpoint=tmp_path, num_epochs=1)


def test_a_broken_block_ends_the_fit_with_the_last_good_state(tmp_path):
    """The block is read late in the first epoch; the fit goes on once the file is mended."""
    failing, taken = latest_block()
    rule = rf"data\.inputs must be finite; got 1 NaN .*, the first in block {failing}, row 7\."
    with pytest.raises(bb.SourceError, match=rule) as error:
        fit(Rows(failing=failing), checkpoint=tmp_path, batch_size=8)
    assert error.value.step is not None
    assert error.value.posterior.mean.shape == (2,)
    assert error.value.step <= taken
    resumed = fit(checkpoint=tmp_path, batch_size=8)
    np.testing.assert_array_equal(resumed.mean, fit(batch_size=8).mean)


def latest_block():
    """A block that is not read for the first and last block's hash, and the step that needs it."""
    feed = Feed(Blocks(Rows()), 8)
    order = feed.order(jax.random.key(0))
    needed = {}
    for step in range(order.num_batches):
        rows, real = order.rows(step)
        for block in np.unique(rows[real] // 20):
            needed.setdefault(int(block), step)
    del needed[0], needed[10]
    return max(needed.items(), key=lambda pair: pair[1])


def test_a_broken_block_before_the_first_step_ends_the_fit():
    with pytest.raises(bb.SourceError, match="in block 0, row 7"):
        fit(Rows(failing=0))


def test_no_thread_is_left(monkeypatch):
    before = threading.active_count()
    fit(num_epochs=1)
    with pytest.raises(bb.SourceError):
        fit(Rows(failing=5))

    def interrupt(state, info):
        raise KeyboardInterrupt

    assert fit(callback=interrupt).info.stopped == "interrupted"
    assert threading.active_count() == before


def test_chunks_are_made_ahead_but_not_without_bound():
    class Counting(Rows):
        count = 0

        def read(self, block):
            self.count += 1
            return super().read(block)

    source = Counting()
    rows, plan, _ = prepare_anywhere(source, None, "adam", 8, 10_000)
    state = bb.init(log_likelihood, jnp.zeros(2), num_data=203, key=jax.random.key(0))
    start = start_at(state, rows, plan)
    rows.runner(True)(state, order=start.order, num_steps=jnp.array(1))
    found = -1
    while found != source.count:
        found = source.count
        time.sleep(0.3)
    rows.close()
    blocks_per_epoch = 11 + rows.num_readers
    assert found <= 6 * blocks_per_epoch


def test_rows_of_a_source_have_no_weights_of_their_own():
    with pytest.raises(ValueError, match="sample_weight must be None for rows from a file"):
        fit(sample_weight=np.ones(203))


def test_replicas_need_rows_in_memory():
    with pytest.raises(TypeError, match="data must be arrays in memory for replicas; got Rows"):
        bb.fit_many(
            log_likelihood, jnp.zeros((2, 2)), Rows(), keys=jax.random.split(jax.random.key(0), 2)
        )


def test_a_batch_larger_than_the_data_is_all_of_it():
    with pytest.warns(UserWarning, match="batch_size should not exceed the number of data points"):
        posterior = fit(batch_size=1000, num_epochs=2)
    assert posterior.info.num_steps == 2


@pytest.mark.parametrize("optimizer", ["natural", "adam"])
@pytest.mark.parametrize("num_rows", [57, 1001, 4099])
def test_default_batches_serve_many_processes(optimizer, num_rows):
    data = ArrayRows(np.ones((num_rows, 2)))
    rows, plan, _ = prepare_anywhere(data, None, optimizer, None, 1)
    assert rows.num_readers >= 16
    assert plan.batch_size == (32 if optimizer == "adam" else -(-num_rows // 32) * 32)
    batches = rows.batches(jax.random.key(0), 0, plan.num_batches)
    assert (batches.weights > 0).sum() == num_rows
    np.testing.assert_allclose(batches.weights.sum(axis=1), num_rows, rtol=1e-6)


def test_steps_wait_for_every_process_after_reading():
    """Others may still be reading, for longer than a sum over the processes may take."""
    feed, waits = Feed(Blocks(Rows()), 8), []
    feed.wait = lambda: waits.append(feed._chunk)
    state = bb.init(log_likelihood, jnp.zeros(2), num_data=203, key=jax.random.key(0))
    for step in range(2 * feed.num_steps):
        feed._chunk_at(dataclasses.replace(state, step=jnp.array(step)), step)
    feed.close()
    assert [batches.begin for batches, _ in waits] == [0, feed.num_steps]


def test_mapped_files_and_parquet_are_fitted_by_path(tmp_path):
    pa = pytest.importorskip("pyarrow")
    table = np.column_stack([INPUTS, TARGETS])
    np.save(tmp_path / "rows.npy", table)
    columns = {"a": table[:, 0], "b": table[:, 1], "y": table[:, 2]}
    path = tmp_path / "rows.parquet"
    pytest.importorskip("pyarrow.parquet").write_table(pa.table(columns), path, row_group_size=64)

    def of_array(weights, batch):
        return log_likelihood(weights, bb.Dataset(batch[:, :2], batch[:, 2]))

    def of_columns(weights, batch):
        inputs = jnp.stack([batch["a"], batch["b"]], axis=1)
        return log_likelihood(weights, bb.Dataset(inputs, batch["y"]))

    for function, data in [(of_array, str(tmp_path / "rows.npy")), (of_columns, path)]:
        posterior = bb.fit(
            function,
            jnp.zeros(2),
            data,
            key=jax.random.key(0),
            num_epochs=400,
            family=bb.FullGaussian,
            alpha=0.0,
        )
        mean, covariance = exact_posterior()
        np.testing.assert_allclose(posterior.mean, mean, atol=0.05 * np.sqrt(covariance.max()))


def test_double_precision_reaches_the_thread(x64):
    """A setting of the user's thread that would otherwise not hold in the one that reads."""
    feed = Feed(Blocks(ArrayRows(np.full(50, 1e300))), 10)
    state = bb.init(
        lambda mean, batch: -((batch / 1e300 - mean) ** 2),
        jnp.zeros(()),
        num_data=50,
        key=jax.random.key(0),
    )
    assert np.isfinite(feed.energy(state))
