"""Approximate Bayesian inference by black-box α-divergence minimization (BB-α).

The public names stand in `__init__.pyi`, in the order of the pipeline. Each is loaded when it is
first used, so that the command line can answer without waiting for jax. Where only
`bbalpha.predictor` is needed, NumPy is enough.
"""

from contextlib import suppress

__version__ = "0.2.0"

with suppress(ModuleNotFoundError):
    import lazy_loader

    __getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
