"""Several processes: the same fit, and its end when one of them is lost."""

import dataclasses
import json
import signal
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from problems import jobs

import bbalpha as bb
from bbalpha.engine.batches import padded_rows
from bbalpha.engine.loop import Start
from bbalpha.engine.shards import Failed, mesh_of, over
from bbalpha.runtime import team as team_module
from bbalpha.runtime.feeding import Feed
from bbalpha.runtime.sources import ArrayRows, Blocks
from bbalpha.runtime.team import Team

MODEL = """
import json, sys
from pathlib import Path
import numpy as np
import bbalpha as bb

def log_likelihood(weights, rows):
    return bb.log_ndtr(rows[:, -1] * (rows[:, :-1] @ weights))

def fits(folder, kinds):
    import jax, jax.numpy as jnp
    from bbalpha.runtime.sources import ArrayRows
    file, found = folder / "rows.npy", {}
    blocks = ArrayRows(np.load(file, mmap_mode="r"), block_rows=4)
    settings = {
        "file": dict(data=blocks, optimizer="adam", num_epochs=9, batch_size=24),
        "default file": dict(data=np.load(file, mmap_mode="r")[:57], num_epochs=9),
        "memory": dict(data=np.load(file), optimizer="adam", num_epochs=7, batch_size=15),
        "whole": dict(data=np.load(file), num_epochs=30),
    }
    for kind in kinds:
        posterior = bb.fit(
            log_likelihood, jnp.zeros(3), key=jax.random.key(1), num_samples=8, progress=False,
            **settings[kind],
        )
        found[kind] = [*posterior.info.energies, float(posterior.energy)]
    return found
"""
SAME = f"""{MODEL}
bb.join_processes(timeout=100)
folder, *kinds = sys.argv[1:]
found = fits(Path(folder), kinds)
import jax
print(json.dumps([jax.process_index(), jax.process_count(), found]))
"""
LONG = f"""{MODEL}
bb.join_processes()
import jax, jax.numpy as jnp
folder, num_epochs = Path(sys.argv[1]), int(sys.argv[2])
posterior = bb.fit(
    log_likelihood, jnp.zeros(3), np.load(folder / "rows.npy"), key=jax.random.key(1),
    optimizer="adam", num_epochs=num_epochs, batch_size=8, num_samples=8, progress=False,
    checkpoint=bb.Checkpoint(folder / "checkpoints", seconds=0.5),
)
print(posterior.info.stopped, [float(each) for each in posterior.mean])
"""


def expected_of(folder, kinds):
    names = {}
    exec(MODEL, names)
    return names["fits"](folder, kinds)


def assert_alike(folder, num_processes, kinds):
    expected = expected_of(folder, kinds)
    for number, (code, output, errors) in enumerate(
        jobs.ends(jobs.start(SAME, num_processes, folder, *kinds), 300)
    ):
        assert code == 0, errors
        found = json.loads(output.splitlines()[-1])
        assert found[:2] == [number, num_processes]
        for kind in kinds:
            np.testing.assert_allclose(found[2][kind], expected[kind], rtol=1e-5)


@pytest.mark.filterwarnings("ignore::bbalpha.ConvergenceWarning")
def test_two_processes_have_the_energies_of_one(folder):
    assert_alike(folder, 2, ["file", "default file", "memory"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::bbalpha.ConvergenceWarning")
@pytest.mark.parametrize("num_processes", [2, 4])
def test_every_kind_of_fit_has_the_energies_of_one_process(folder, num_processes):
    assert_alike(folder, num_processes, ["file", "default file", "memory", "whole"])


def steps_saved(folder):
    names = [path.stem.removeprefix("step-") for path in (folder / "checkpoints").glob("step-*")]
    return max(map(int, names), default=0)


def started_long(folder, num_processes, num_epochs=10**8):
    """A job that has saved some hundred steps."""
    processes = jobs.start(LONG, num_processes, folder, num_epochs)
    deadline = time.monotonic() + 240
    while steps_saved(folder) < 100 and time.monotonic() < deadline:
        assert all(each.poll() is None for each in processes), jobs.ends(processes, 60)
        time.sleep(0.05)
    return processes


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 2])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
def test_survivors_save_and_end_with_a_sentence(folder, tmp_path, victim, number):
    (tmp_path / "rows.npy").write_bytes((folder / "rows.npy").read_bytes())
    processes = started_long(tmp_path, 3)
    processes[victim].send_signal(number)
    begun = time.monotonic()
    survivors = [each for place, each in enumerate(processes) if place != victim]
    try:
        found = jobs.ends(survivors, 30)
    finally:
        jobs.ends([], 0)
        processes[victim].kill()
        processes[victim].communicate()
    assert time.monotonic() - begun < 15
    for code, _, errors in found:
        assert code == 75
        last = errors.strip().splitlines()[-1]
        assert "did not answer. The fit ended after " in last
        assert last.endswith(f"the same call goes on from {tmp_path / 'checkpoints'}.")


@pytest.mark.slow
def test_sigterm_in_one_process_saves_and_ends_all(folder, tmp_path):
    (tmp_path / "rows.npy").write_bytes((folder / "rows.npy").read_bytes())
    processes = started_long(tmp_path, 2)
    before = steps_saved(tmp_path)
    processes[1].terminate()
    assert [code for code, *_ in jobs.ends(processes, 30)] == [-signal.SIGTERM] * 2
    assert steps_saved(tmp_path) > before


@pytest.fixture
def team(monkeypatch):
    """Process 1 of three, whose peers say what `replies` holds."""
    made = Team(mesh_of(jax.devices()[:1]), 1, 3)
    made.wait = lambda: None
    made.replies = []
    monkeypatch.setattr(
        team_module.multihost_utils,
        "process_allgather",
        lambda words: np.stack(
            [np.array([*reply, *words[len(reply) :]]) for reply in made.replies]
        ),
    )
    return made


@dataclasses.dataclass
class State:
    variables: object = dataclasses.field(default_factory=lambda: np.arange(3.0))


def test_process_0_decides_when_to_stop_and_how_far_to_go(team):
    stop = team_module.REASONS.index("converged")
    team.replies = [(stop, 7), (0, 5), (0, 6)]
    assert team.agreed(None, 5, State()) == ("converged", 7)
    team.replies = [(0, 7), (stop, 5), (0, 6)]
    assert team.agreed(None, 5, State()) == (None, 7)


def test_a_signal_in_any_process_stops_all(team):
    team.replies = [(0, 7), (0, 5), (team_module.REASONS.index("terminated"), 6)]
    assert team.agreed(None, 5, State()) == ("terminated", 7)


def test_processes_that_no_longer_agree_are_told(team):
    team.replies = [(0, 7, 1, 1, 1), (0, 7, 1, 1, 1), (0, 7, 1, 1, 2)]
    with pytest.raises(
        Failed,
        match=r"^The processes no longer agree: q differs between process 0 "
        r"and process 2 of 3\. Every process must call fit with the same",
    ) as caught:
        team.agreed("interrupted", 5, State())
    assert not caught.value.writes


def test_the_process_that_no_longer_agrees_is_named_even_if_not_all_compare(team):
    """Only processes that a signal has reached compare at that moment."""
    team.replies = [(0, 7, 0, 0, 0), (0, 7, 1, 1, 1), (0, 7, 1, 1, 2)]
    with pytest.raises(Failed, match=r"q differs between process 1 and process 2 of 3\."):
        team.agreed(None, 5, State())


@pytest.fixture
def begun():
    """The start of a fit, and its rows."""
    state = bb.init(log_zero, jnp.zeros(1), num_data=1, key=jax.random.key(0))
    return Start(state, None, np.zeros(1)), padded_rows(np.ones((3, 1)), np.ones(3))


def test_the_data_must_be_the_same_in_all_processes(team, begun):
    team.replies = [(1, 1), (1, 2), (1, 1)]
    assert team.difference(*begun) == (
        "data must be the same rows in the same order in every process; got other rows in "
        "process 1 of 3 than in process 0."
    )


def test_the_start_must_be_the_same_in_all_processes(team, begun):
    assert found_by(team, begun, [[(1, 1)] * 3, [(1, 1)] * 3]) is None
    assert found_by(team, begun, [[(1, 1)] * 3, [(1, 1), (1, 2), (1, 1)]]) == (
        "checkpoint must be a folder that every process sees, because all continue from the same "
        "state; got step 0 in process 1."
    )


def found_by(team, begun, replies):
    replies = iter(replies)
    team.wait = lambda: setattr(team, "replies", next(replies))
    return team.difference(*begun)


def test_more_processes_than_readers_are_refused(team):
    feed = Feed(Blocks(ArrayRows(np.ones((8, 2)), block_rows=2)), batch_size=2)
    message = r"^the number of processes must divide the 2 readers of the data; got 3 processes\. A"
    with pytest.raises(ValueError, match=message):
        team.share(feed, None)


def log_zero(weights, batch):
    return jnp.zeros(len(batch))


@pytest.mark.parametrize(
    ("present", "text", "message"),
    [
        ({0, 1, 2}, "INTERNAL: my callback: x\nTraceback", "A sum over the processes failed, "
         "although all of them answer; the error is: INTERNAL: my callback: x."),
        ({0, 1}, "UNKNOWN: Gloo all-reduce failed: Connection closed by peer",
         "Process 2 of 3 did not answer."),
        ({1}, "INTERNAL: my callback: x", "Processes 0 and 2 of 3 did not answer; the error is: "
         "INTERNAL: my callback: x."),
    ],
)  # fmt: skip
def test_the_cause_of_a_failed_sum_is_told(team, present, text, message):
    team._survivors = lambda: present
    error = jax.errors.JaxRuntimeError(text)

    def program():
        raise error

    with pytest.raises(Failed) as caught:
        over(team.mesh, program, team.failed)()
    assert caught.value.reason == message
    is_loss = "Gloo" in text
    assert caught.value.__cause__ is (None if is_loss else error)


def test_an_error_that_is_not_of_a_peer_stays_as_it_is(team):
    for error in (ValueError("alpha must be"), jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: x")):
        assert team.failed(error) is error
