"""The uncertainty of a prediction, split by its source."""

from typing import NamedTuple

import numpy as np


class Uncertainty(NamedTuple):
    """The uncertainty of a prediction by its source, one number per row (and output).

    For numbers these are variances: total = aleatoric + epistemic. For classes they are entropies
    in nats: the entropy of the averaged probabilities, the average entropy, and their difference,
    which is the mutual information between the label and the weights.

    Attributes:
        total: The whole uncertainty.
        aleatoric: The part that more data would not remove: noise.
        epistemic: The part due to uncertainty about the weights.
    """

    total: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray
