"""Where the time of a step goes: the kernels that the compiler made of it, by their share."""

import re
import tempfile
from collections import Counter
from pathlib import Path

import jax
import jax.numpy as jnp
import problems
import steps

from bbalpha.engine.batches import no_order
from bbalpha.engine.epochs import run_steps

NUM_LISTED = 8


def of_step(problem, num_steps, resample_every=1):
    """How many kernels a step runs, and the name and share of time of those that take longest."""
    run = steps.ours(problem, num_steps, resample_every)
    jax.block_until_ready(run())
    with tempfile.TemporaryDirectory() as folder:
        with jax.profiler.trace(folder):
            jax.block_until_ready(run())
        (file,) = Path(folder).rglob("*.xplane.pb")
        durations, counts = _durations(jax.profiler.ProfileData.from_file(str(file)))
    meaning = _meanings(problem, resample_every)
    total = sum(durations.values())
    longest = {
        meaning.get(name, name): duration / total
        for name, duration in durations.most_common(NUM_LISTED)
    }
    return sum(counts.values()) / num_steps, longest


def of_all(say):
    """A title with the kernels of each problem."""
    for title, problem, num_steps, resample_every in (
        ("(a)", problems.probit(), 200, 1),
        ("(b)", problems.regression(), 50, 1),
        ("(b), redrawn every 10", problems.regression(), 50, 10),
        ("(c), redrawn every 10", problems.classification(), 10, 10),
    ):
        say(f"profile of {title}")
        yield title, *of_step(problem, num_steps, resample_every)


def _durations(profile):
    durations, counts = Counter(), Counter()
    for plane in profile.planes:
        for line in plane.lines:
            for event in line.events:
                name = dict(event.stats).get("hlo_op")
                if name is not None and not name.startswith(("while", "cond", "call")):
                    durations[name] += event.duration_ns
                    counts[name] += 1
    return durations, counts


def _meanings(problem, resample_every):
    """The shape of each kernel's result and the operation of the program that it comes from."""
    state = steps.state_of(problem, jax.random.key(0), resample_every)
    rows = steps.rows_of(problem)
    order = no_order(rows, problem.batch_size)
    lowered = run_steps.program.lower(state, rows, order, jnp.asarray(1), problem.batch_size)
    pattern = r'%(\S+) = (\w+\[[\d,]*\])\S* .*?op_name="([^"]*)"'
    found = re.findall(pattern, lowered.compile().as_text())
    return {name: _describe(name, shape, path) for name, shape, path in found}


def _describe(name, shape, path):
    direction = "backward" if "transpose(jvp" in path else "forward" if "jvp" in path else "other"
    direction = "recomputed" if "rematted" in path else direction
    return f"`{name}`: {path.split('/')[-1]}, {direction}, {shape}"
