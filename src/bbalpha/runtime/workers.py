"""The environment for worker processes (joblib, dask, Ray): same bits, same compiled programs."""

import jax

from bbalpha.engine.cache import SETTINGS, use_compilation_cache
from bbalpha.engine.checks import check_counts
from bbalpha.runtime.fingerprints import cores


def worker_environment(num_threads: int | None = None) -> dict[str, str]:
    """Environment variables for processes that fit on behalf of this one.

    XLA splits large sums by its number of threads, so fits have the same bits only if that number
    is the same; the variable `NPROC` sets it. The workers also share the folder of compiled
    programs that `use_compilation_cache` uses.

    Pass the variables to the library before it starts the workers: `os.environ.update(…)` for
    joblib's loky, `env=…` for dask, `runtime_env={"env_vars": …}` for Ray. The number of threads of
    this process itself is fixed when it first computes.

    Args:
        num_threads: Threads of each worker; by default as many as this process has.

    >>> from bbalpha.runtime.workers import worker_environment
    >>> worker_environment(num_threads=1)["NPROC"]
    '1'
    """
    if num_threads is not None:
        check_counts(num_threads=num_threads)
    found = {
        "NPROC": str(cores() if num_threads is None else num_threads),
        "JAX_ENABLE_X64": str(int(getattr(jax.config, "jax_enable_x64", False))),
        "JAX_NUM_CPU_DEVICES": str(getattr(jax.config, "jax_num_cpu_devices", -1)),
    }
    folder = use_compilation_cache()
    if folder is not None:
        shared = {"JAX_COMPILATION_CACHE_DIR": str(folder)}
        shared |= {name.upper(): str(getattr(jax.config, name)) for name in SETTINGS}
        found |= shared
    return found
