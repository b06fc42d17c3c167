"""A posterior server on Ray: the data are dealt to actors, one of which is killed on the way.

Each actor holds a part of the rows and answers with its site, a Gaussian; the server multiplies the
sites. Ray starts the killed actor again, and the posterior is the one that workers in this process
find, bit for bit. Run it with `python examples/ray_server.py`; the extra `ray` is needed.
"""

import os
import signal

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # one machine: sockets on loopback only

import jax
import jax.numpy as jnp
import numpy as np
import ray

import bbalpha as bb
from bbalpha.message_passing.ray_workers import RayWorker
from bbalpha.runtime.workers import worker_environment

KILLED_IN_ROUND = 10
SETTINGS = {"num_workers": 2, "max_rounds": 60}


class Victim(RayWorker):
    """A worker whose actor's process is killed before it takes its tenth step."""

    rounds = 0

    def update(self, q, step):
        self.rounds += 1
        if self.rounds == KILLED_IN_ROUND:
            process = ray.get(self.actor.process.remote())
            os.kill(process, signal.SIGKILL)
            print(f"killed an actor in round {self.rounds}")
        return super().update(q, step)


def main():
    ray.init(  # before jax has threads, because this forks
        num_cpus=2,
        object_store_memory=100 * 2**20,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": worker_environment()},
    )
    key = jax.random.key(0)
    inputs = jax.random.normal(jax.random.key(1), (200, 3))
    noise = jax.random.normal(jax.random.key(2), (200,))
    labels = jnp.where(inputs @ jnp.array([1.0, -1.0, 0.5]) + noise > 0, 1.0, 0.0)

    here = bb.snep(bb.Probit(), inputs, labels, key=key, **SETTINGS)

    kinds = iter([Victim, RayWorker])
    there = bb.snep(
        bb.Probit(), inputs, labels, key=key, **SETTINGS, place=lambda worker: next(kinds)(worker)
    )
    ray.shutdown()

    for mean, variance in zip(there.mean, there.variance, strict=True):
        print(f"weight: {mean:5.2f} ± {variance**0.5:.2f}")
    same = all(map(np.array_equal, (here.mean, here.variance), (there.mean, there.variance)))
    print(f"the same bits as without Ray: {'yes' if same else 'no'}")


if __name__ == "__main__":
    main()
