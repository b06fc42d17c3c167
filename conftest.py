"""Settings for every test and doctest, here so that tests/, src/ and paper/ all see them."""

import gc
import os
from pathlib import Path

os.environ["JAX_PLATFORMS"] = "cpu"
os.environ["MPLBACKEND"] = "Agg"

import jax
import jax.numpy as jnp
import jaxtyping
import pytest

# Compiled programs are kept, so a process comes to hold gigabytes of live objects, and collecting
# as often as usual would take a tenth of the time.
gc.set_threshold(200_000, 50, 100)

jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_numpy_rank_promotion", "raise")

# Most of the time goes into compiling, which takes half as long with few optimizations, with XLA's
# older emitters and in one piece. The flags are read once, here: processes that tests start
# compile as users' do. The fixture `optimized` is for tests that run their programs for long.
CHEAP_COMPILES = "--xla_cpu_use_fusion_emitters=false --xla_cpu_parallel_codegen_split_count=1"
jax.config.update("jax_disable_most_optimizations", True)
if "XLA_FLAGS" not in os.environ:
    os.environ["XLA_FLAGS"] = CHEAP_COMPILES
    jax.devices()
    del os.environ["XLA_FLAGS"]

# Programs compiled once are found again by the other test process, by processes that tests start,
# and by the next run. They are compiled with other options here than there, hence two folders.
CACHE = Path(__file__).parent / ".jax_cache"
jax.config.update("jax_compilation_cache_dir", str(CACHE / "tests"))
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
os.environ["JAX_COMPILATION_CACHE_DIR"] = str(CACHE / "processes")
os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0"

# Shapes and types of every function of bbalpha are checked when it is called. The hook acts on
# imports that come after it, so nothing may import bbalpha earlier.
jaxtyping.install_import_hook(["bbalpha", "bbalpha_paper"], "beartype.beartype")

import bbalpha as bb  # noqa: E402


@pytest.fixture
def x64():
    """Computes in 64 bits for the length of one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture
def optimized():
    """Compiles programs as users' are, for a test that runs them for longer than that takes."""
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", True)


@pytest.fixture
def compilations():
    """The names of the programs that were compiled since the test began."""
    names = []

    def listen(event, duration, **details):
        if event == "/jax/core/compile/backend_compile_duration":
            names.append(details.get("fun_name"))

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield names
    jax.monitoring.unregister_event_duration_listener(listen)


def pytest_sessionfinish():
    """Collect garbage once: pytest does it five times when it ends, over all compiled programs."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace):
    doctest_namespace.update(bb=bb, jax=jax, jnp=jnp)


@pytest.fixture
def passes(monkeypatch):
    """How many rows were predicted in each pass over the draws since the test began."""
    found = []
    predict = bb.Posterior.predict

    def counted(self, model, inputs, **settings):
        found.append(len(jax.tree.leaves(inputs)[0]))
        return predict(self, model, inputs, **settings)

    monkeypatch.setattr(bb.Posterior, "predict", counted)
    return found
