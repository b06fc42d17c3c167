"""Predictions of an exported model, with NumPy alone: no jax, no scikit-learn, no pandas.

An estimator's `export` and `bbalpha export` write the file that `Predictor.load` reads. If you need
only this, `pip install numpy` and `pip install --no-deps bbalpha` are enough.
"""

from bbalpha.predictor.predicting import Predictor

__all__ = ["Predictor"]
