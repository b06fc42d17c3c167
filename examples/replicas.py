"""Scores of replicas on several processes or machines are those of one process, bit for bit.

    python examples/replicas.py sequential     or loky, threading, dask, ray

The values of α and the folds go to workers through joblib. Each worker has as many threads as this
process and finds the programs that another has compiled.
"""

import contextlib
import os
import sys

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # one machine: sockets on loopback only

import joblib
import numpy as np
from sklearn.model_selection import GridSearchCV, cross_val_score

import bbalpha as bb
from bbalpha.runtime.workers import worker_environment

NUM_WORKERS = 2


@contextlib.contextmanager
def workers(backend):
    """Workers of that kind, on this machine."""
    environment = worker_environment()
    os.environ.update(environment)  # loky's processes and local ones of dask and Ray inherit it
    with contextlib.ExitStack() as stack:
        if backend == "dask":
            from distributed import Client, LocalCluster

            cluster = LocalCluster(
                n_workers=NUM_WORKERS,
                threads_per_worker=1,
                processes=True,
                host="127.0.0.1",
                dashboard_address=None,
                env=environment,
            )
            stack.enter_context(Client(stack.enter_context(cluster)))
        if backend == "ray":
            import ray
            from ray.util.joblib import register_ray

            ray.init(
                num_cpus=NUM_WORKERS,
                object_store_memory=100 * 2**20,
                include_dashboard=False,
                log_to_driver=False,
                runtime_env={"env_vars": environment},
            )
            stack.callback(ray.shutdown)
            register_ray()
        if backend != "sequential":
            number = {} if backend == "dask" else {"n_jobs": NUM_WORKERS}
            stack.enter_context(joblib.parallel_config(backend, **number))
        yield


def main(backend):
    stream = np.random.RandomState(0)
    inputs = stream.normal(size=(60, 2))
    targets = inputs[:, 0] + 0.1 * stream.normal(size=60)
    model = bb.BBAlphaRegressor((5,), max_epochs=3, random_state=0)
    with workers(backend):
        sweep = GridSearchCV(model, {"alpha": [0.0, 0.5]}, cv=2).fit(inputs, targets)
        scores = cross_val_score(model, inputs, targets, cv=2)
    for name, found in {"sweep": sweep.cv_results_["mean_test_score"], "folds": scores}.items():
        print(name, *map(float.hex, found.tolist()))


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "loky")
