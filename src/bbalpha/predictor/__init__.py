"""Predictions of an exported model, with NumPy alone: no jax, no scikit-learn, no pandas.

A service or a container needs this folder, `engine/probabilities.py`,
`engine/count_probabilities.py`, `engine/beta_ratio.py` and NumPy; `pip install --no-deps bbalpha`
brings them. An estimator's `export` writes the file, `Predictor.load` reads it.
"""

from bbalpha.predictor.predicting import Predictor

__all__ = ["Predictor"]
