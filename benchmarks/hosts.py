"""Many processes on one machine: steps, bytes and memory; failures and restarts.

    python benchmarks/hosts.py --scaling    # step time, bytes reduced, memory of 1, 2, 4 processes
    python benchmarks/hosts.py --failures   # one of four killed, stopped, cut off; needs root
    python benchmarks/hosts.py --restarts   # launch --restarts ends as an undisturbed run does

Failures happen in network namespaces, each with an address of its own on a bridge that this
script makes and removes.
"""

import argparse
import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NUM_PROCESSES = 4
NETWORK = "10.213.77"  # of the namespaces
BRIDGE, PREFIX = "bbalpha0", "bbalpha-host"
KINDS = ("killed", "stopped", "cut off")
LIMIT = 15.0  # seconds in which survivors must have ended
PATIENCE = 180.0  # seconds in which a fit must have begun
NUM_ROWS, NUM_COLUMNS, HIDDEN, NUM_SAMPLES = 131_072, 50, 100, 16


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("scaling", "failures", "restarts"):
        parser.add_argument(f"--{name}", action="store_true")
    parser.add_argument("--worker", metavar="FOLDER", help=argparse.SUPPRESS)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--timed", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--batch-size", type=int, default=1024)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--largest", type=int, default=NUM_PROCESSES)
    options = parser.parse_args()
    if options.worker:
        work(Path(options.worker), options)
    if options.scaling:
        scaling(options)
    if options.failures:
        failures(options.kinds)
    if options.restarts:
        restarts()


# One process


def work(folder, options):
    import bbalpha as bb

    bb.join_processes()
    import jax

    print(f"process {jax.process_index()} of {jax.process_count()}", file=sys.stderr, flush=True)
    if options.timed:
        timed_fit(folder, options.steps, options.batch_size)
    else:
        long_fit(folder, options.steps)


def long_fit(folder, num_steps):
    """A fit of a small model that is saved every second."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    import bbalpha as bb

    rng = np.random.default_rng(0)
    inputs = rng.normal(size=(1024, 20)).astype(np.float32)
    labels = np.sign(inputs[:, 0] + 0.3 * rng.normal(size=1024)).astype(np.float32)

    def log_likelihood(weights, batch):
        inputs, labels = batch
        return bb.log_ndtr(labels * (inputs @ weights))

    posterior = bb.fit(
        log_likelihood,
        jnp.zeros(20),
        (inputs, labels),
        key=jax.random.key(1),
        optimizer="adam",
        batch_size=64,
        num_epochs=num_steps // 16,
        checkpoint=bb.Checkpoint(folder / "checkpoints", seconds=1.0),
        progress=False,
    )
    if jax.process_index() == 0:
        mean = np.asarray(posterior.mean)
        (folder / "result.json").write_text(
            json.dumps({"mean": mean.tolist(), "energy": float(posterior.energy)})
        )


def timed_fit(folder, num_steps, batch_size):
    """Some steps of a network on rows from a file; prints one line of JSON."""
    import resource

    import jax

    import bbalpha as bb

    sizes = (NUM_COLUMNS, HIDDEN, 1)
    times, before = [], resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def note(state, info):
        times.append((int(state.step), time.perf_counter(), time.process_time()))

    def log_likelihood(weights, rows):
        outputs = bb.mlp(weights, rows[:, :-1])
        return bb.Gaussian().log_prob(outputs, rows[:, -1])

    start = bb.init_mlp(sizes, key=jax.random.key(0))
    num_epochs = max(2, num_steps * batch_size // NUM_ROWS)
    bb.fit(
        log_likelihood,
        start,
        folder / "rows.npy",
        key=jax.random.key(1),
        optimizer="adam",
        batch_size=batch_size,
        num_samples=NUM_SAMPLES,
        num_epochs=num_epochs,
        callback=note,
        progress=False,
    )
    (first, began, cpu), (last, ended, cpu_end) = times[0], times[-1]
    if jax.process_index() == 0:
        print(
            json.dumps(
                {
                    "processes": jax.process_count(),
                    "seconds": (ended - began) / (last - first),
                    "cpu": (cpu_end - cpu) / (last - first),
                    "memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
                    "before": before / 1024,
                    "params": sum(leaf.size for leaf in jax.tree.leaves(start)),
                }
            ),
            flush=True,
        )


# Scaling


def scaling(options):
    import numpy as np

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rows = np.random.default_rng(0).normal(size=(NUM_ROWS, NUM_COLUMNS + 1))
        np.save(folder / "rows.npy", rows.astype(np.float32))
        counts = [count for count in (1, 2, 4, 8) if count <= options.largest]
        for count in [*counts, *counts]:  # twice, in turn
            print(json.dumps(timed_job(folder, count, options)), flush=True)


def timed_job(folder, count, options):
    script = [__file__, "--worker", str(folder), "--timed", "--steps", str(options.steps)]
    script += ["--batch-size", str(options.batch_size)]
    variables = {"NPROC": "1", "PYTHONWARNINGS": "ignore"}
    if count == 1:
        command = [sys.executable, *script]
    else:
        launch = ["launch", "--processes", str(count), "--", "python"]
        command = [sys.executable, "-m", "bbalpha", *launch, *script]
    done = subprocess.run(
        command, env=os.environ | variables, capture_output=True, text=True, timeout=600
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        sys.exit(done.stderr)
    return json.loads(lines[-1])


# Failures


def failures(kinds):
    for kind in kinds:
        for victim in (2, 0):
            with tempfile.TemporaryDirectory() as folder, namespaces(NUM_PROCESSES) as names:
                report(kind, victim, *fail(Path(folder), names, kind, victim))


def report(kind, victim, ends, lines):
    slowest = max(seconds for _, seconds in ends.values())
    codes = sorted({code for code, _ in ends.values()})
    print(f"process {victim} {kind}: others ended within {slowest:.1f} s, exit codes {codes}")
    for line in sorted(set(lines)):
        print(f"    {line}")
    assert slowest < LIMIT, ends
    assert codes == [75], ends


def fail(folder, names, kind, victim):
    """How the others ended, with their exit codes, seconds and last lines."""
    processes = start_all(folder, names)
    try:
        wait_for_checkpoints(folder, processes)
        begun = time.monotonic()
        if kind == "cut off":
            run("ip", "link", "set", f"{BRIDGE}.{victim}", "down")
        else:
            number = signal.SIGKILL if kind == "killed" else signal.SIGSTOP
            processes[victim].send_signal(number)
        waiting = set(range(len(names))) - ({victim} if kind != "cut off" else set())
        ends = {}
        while waiting and time.monotonic() < begun + 60:
            for number in sorted(waiting):
                if processes[number].poll() is not None:
                    ends[number] = (processes[number].returncode, time.monotonic() - begun)
                    waiting.discard(number)
            time.sleep(0.02)
        ends |= dict.fromkeys(waiting, (None, float("inf")))
    finally:
        for process in processes:
            process.kill()
            process.wait()
    texts = [(folder / f"{number}.log").read_text() for number in ends]
    lines = [text.strip().splitlines()[-1] for text in texts if text.strip()]
    return ends, [re.sub(r"[\d,]+ steps; .*", "… steps; …", line) for line in lines]


def start_all(folder, names):
    processes = []
    for number, name in enumerate(names):
        variables = {
            "JAX_COORDINATOR_ADDRESS": f"{NETWORK}.1:5555",
            "JAX_NUM_PROCESSES": str(len(names)),
            "JAX_PROCESS_ID": str(number),
            "NPROC": "1",
            "PYTHONWARNINGS": "ignore",
        }
        script = [__file__, "--worker", str(folder), "--steps", "10000000"]
        # `exec`, so that a signal reaches the process itself; a host name of its own, which
        # the file of hosts of the namespace knows.
        command = f"hostname {name}; exec {sys.executable} {' '.join(script)}"
        with (folder / f"{number}.log").open("w") as log:
            processes.append(
                subprocess.Popen(
                    ["ip", "netns", "exec", name, "unshare", "--uts", "sh", "-c", command],
                    env=os.environ | variables,
                    stdout=log,
                    stderr=log,
                )
            )
    return processes


def wait_for_checkpoints(folder, processes):
    deadline = time.monotonic() + PATIENCE
    while len(list((folder / "checkpoints").glob("step-*"))) < 2 or not is_under_way(folder):
        if time.monotonic() > deadline or any(each.poll() is not None for each in processes):
            sys.exit("\n".join(path.read_text() for path in sorted(folder.glob("*.log"))))
        time.sleep(0.1)
    time.sleep(1.0)


def is_under_way(folder):
    """Whether more than the first few steps have been saved."""
    names = [path.stem for path in (folder / "checkpoints").glob("step-*")]
    return max(int(name.removeprefix("step-")) for name in names) > 100


@contextlib.contextmanager
def namespaces(count):
    """Names of network namespaces on one bridge, which are removed afterwards."""
    names = [f"{PREFIX}{number}" for number in range(count)]
    hosts = Path("/etc/netns")
    had_hosts = hosts.exists()
    try:
        run("ip", "link", "add", BRIDGE, "type", "bridge")
        run("ip", "link", "set", BRIDGE, "up")
        for number, name in enumerate(names):
            address, own = f"{NETWORK}.{number + 1}", f"{BRIDGE}.{number}"
            run("ip", "netns", "add", name)
            run("ip", "link", "add", own, "type", "veth", "peer", "name", "eth0", "netns", name)
            run("ip", "link", "set", own, "master", BRIDGE, "up")
            for command in (
                ["addr", "add", f"{address}/24", "dev", "eth0"],
                ["link", "set", "eth0", "up"],
                ["link", "set", "lo", "up"],
            ):
                run("ip", "-n", name, *command)
            (hosts / name).mkdir(parents=True, exist_ok=True)
            (hosts / name / "hosts").write_text(f"127.0.0.1 localhost\n{address} {name}\n")
        yield names
    finally:
        for number, name in enumerate(names):
            subprocess.run(["ip", "link", "delete", f"{BRIDGE}.{number}"], capture_output=True)
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)
            (hosts / name / "hosts").unlink(missing_ok=True)
            with contextlib.suppress(OSError):
                (hosts / name).rmdir()
        if not had_hosts:
            with contextlib.suppress(OSError):
                hosts.rmdir()
        subprocess.run(["ip", "link", "delete", BRIDGE], capture_output=True)


def run(*command):
    subprocess.run(command, check=True, capture_output=True)


# Restarts


def restarts():
    with tempfile.TemporaryDirectory() as one, tempfile.TemporaryDirectory() as other:
        expected, _ = launched(Path(one), kills=0)
        found, text = launched(Path(other), kills=2)
    print(text.strip())
    print(f"identical: {found == expected}; energy {found['energy']}")
    assert found == expected


def launched(folder, kills):
    """The result of a fit by two launched processes, one of which is killed some times."""
    script = [__file__, "--worker", str(folder), "--steps", "96000"]
    launch = ["launch", "--processes", "2", "--restarts", "3", "--", "python", *script]
    process = subprocess.Popen(
        [sys.executable, "-m", "bbalpha", *launch],
        env=os.environ | {"PYTHONWARNINGS": "ignore"},
        stderr=subprocess.PIPE,
        text=True,
    )
    for _ in range(kills):
        last = newest(folder)
        while process.poll() is None and newest(folder) < last + 1500:
            time.sleep(0.1)
        victim = max(children(process.pid), default=None)
        if victim is None:
            break
        os.kill(victim, signal.SIGKILL)
        time.sleep(5)
    _, errors = process.communicate(timeout=500)
    lines = [line for line in errors.splitlines() if "restart" in line]
    return json.loads((folder / "result.json").read_text()), "\n".join(lines)


def newest(folder):
    names = [path.stem for path in (folder / "checkpoints").glob("step-*")]
    return max((int(name.removeprefix("step-")) for name in names), default=0)


def children(number):
    text = Path(f"/proc/{number}/task/{number}/children").read_text()
    return [int(word) for word in text.split()]


if __name__ == "__main__":
    main()
