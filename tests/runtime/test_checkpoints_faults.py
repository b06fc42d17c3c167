"""Whatever fails while a checkpoint is written, the one before can be read, or the new one."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import pytest
from problems.faults import FAULTS, Killed, every_fault

import bbalpha as bb
from bbalpha.files import model_file
from bbalpha.runtime.checkpoints import Keeper, keeper_of

pytestmark = pytest.mark.filterwarnings("ignore::bbalpha.ConvergenceWarning")


@pytest.fixture(scope="module")
def end(tmp_path_factory):
    """The keeper of a fit, and the state and energies at its end."""
    ends = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Keeper, "save", lambda *args: ends.append(args))
        bb.fit(
            lambda mean, batch: jax.scipy.stats.norm.logpdf(batch, mean),
            jnp.zeros(()),
            jnp.array([0.5, 1.5, 2.5]),
            key=jax.random.key(0),
            num_epochs=3,
            optimizer="adam",
            progress=False,
            checkpoint=tmp_path_factory.mktemp("unused"),
        )
    return ends[-1][:3]


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_fault_at_any_call_leaves_the_last_checkpoint_or_the_new_one(tmp_path, end, fault):
    keeper, state, energies = end
    checkpoint = bb.Checkpoint(tmp_path, keep=2)
    keeper = dataclasses.replace(keeper, checkpoint=checkpoint)

    def save(*steps):
        for step in steps:
            at_step = eqx.tree_at(lambda state: state.step, state, jnp.asarray(step))
            keeper.save(at_step, energies)

    def start_over():
        for path in tmp_path.iterdir():
            path.unlink()
        save(1, 2)

    for raised, _ in every_fault(fault, start_over, lambda: save(3)):
        if fault is not Killed:
            assert steps_in(tmp_path) in ([1, 2], [2, 3], [1, 2, 3])
        keeper_of(checkpoint, keeper.facts, keeper.watch)  # as the next fit does at its start
        steps = steps_in(tmp_path)
        assert steps in ([1, 2], [2, 3], [1, 2, 3])
        assert 3 in steps or raised is not None
        save(4)
        assert steps_in(tmp_path) == [steps[-1], 4]
    assert raised is None
    assert steps == [2, 3]


def steps_in(folder):
    """The steps of all files in a folder, which are whole checkpoints."""
    paths = sorted(folder.iterdir())
    arrays = [model_file.read(path)[0] for path in paths]
    steps = [int(each["['state'].step"]) for each in arrays]
    assert [path.name for path in paths] == [f"step-{step:012d}.safetensors" for step in steps]
    return steps
