"""Jobs of several processes on the loopback address of this machine."""

import os
import socket
import subprocess
import sys
import time


def start(script, num_processes, *arguments, **variables):
    """The processes that run a script, which joins them."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    shared = os.environ | {
        "JAX_COORDINATOR_ADDRESS": address,
        "JAX_NUM_PROCESSES": str(num_processes),
        "NPROC": "1",
        "PYTHONWARNINGS": "ignore",
    }
    return [
        subprocess.Popen(
            [sys.executable, "-c", script, *map(str, arguments)],
            env=shared | {"JAX_PROCESS_ID": str(number)} | variables,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(num_processes)
    ]


def ends(processes, seconds):
    """The exit code, standard output and standard error of each; all are killed at the end."""
    deadline = time.monotonic() + seconds
    found = []
    try:
        for process in processes:
            output = process.communicate(timeout=max(1.0, deadline - time.monotonic()))
            found.append((process.returncode, *output))
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return found
