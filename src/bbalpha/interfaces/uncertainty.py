"""`Uncertainty`, which `decompose` of the estimators returns: noise apart from ignorance."""

from typing import NamedTuple

import numpy as np


class Uncertainty(NamedTuple):
    """The uncertainty of predictions by source, one number per row (and output).

    For numbers these are variances: total = aleatoric + epistemic. For classes they are entropies
    in nats: `total` is the entropy of the averaged probabilities, `aleatoric` the average entropy,
    and `epistemic` their difference, which is the mutual information between label and weights.

    Attributes:
        total: The whole uncertainty.
        aleatoric: The part due to noise, which more data would not remove.
        epistemic: The part due to uncertainty about the weights, which more data would reduce.
    """

    total: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray
