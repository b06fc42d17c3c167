"""BB-α for NumPyro models: `fit` in one call, or a loss for your own `numpyro.infer.SVI`."""

from bbalpha.interfaces.needed import check_installed

check_installed("numpyro", (0, 22), "bbalpha.interfaces.numpyro")

from bbalpha.interfaces.numpyro.fitting import fit, posterior_of  # noqa: E402
from bbalpha.interfaces.numpyro.loss import BBAlphaELBO, count_steps  # noqa: E402
from bbalpha.interfaces.numpyro.posterior import ModelPosterior  # noqa: E402

__all__ = ["BBAlphaELBO", "ModelPosterior", "count_steps", "fit", "posterior_of"]
