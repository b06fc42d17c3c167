import jax
import pytest


@pytest.fixture(autouse=True)
def _usual_ranks():
    """NumPyro promotes ranks, which the tests of bbalpha forbid."""
    with jax.numpy_rank_promotion("allow"):
        yield
