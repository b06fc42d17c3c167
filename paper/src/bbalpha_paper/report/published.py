"""Published numbers, transcribed once: the paper's tables, and other papers to compare with.

Every published number in a report comes from here, with its source.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from bbalpha_paper.report.statistics import Estimate

ALPHAS = (1.0, 0.5, 1e-6, 0.0)  # the columns BB-α=1.0, BB-α=0.5, BB-α=10⁻⁶ and BB-VB
RANK = "rank"  # the row of average ranks


@dataclass(frozen=True)
class Published:
    """A table of the paper.

    Attributes:
        place: Its number in the paper.
        rows: Numbers by data set (or `RANK`, or a number of draws) and α.
    """

    place: str
    rows: Mapping[str, Mapping[float, Estimate]]

    @property
    def datasets(self) -> list[str]:
        """The names of its rows, except the ranks."""
        return [name for name in self.rows if name != RANK]

    def of(self, name: str, alpha: float) -> Estimate | None:
        """The number in a row for a power; None if the paper has none."""
        return self.rows.get(name, {}).get(alpha)


def _row(*numbers: float | tuple[float, float]) -> dict[float, Estimate]:
    """Numbers, or numbers ± standard errors, for α = 1, 0.5, 10⁻⁶ and VB, in this order."""
    pairs = (entry if isinstance(entry, tuple) else (entry, None) for entry in numbers)
    return {alpha: Estimate(*pair) for alpha, pair in zip(ALPHAS, pairs, strict=False)}


PROBIT = "Table 1"
PROBIT_LOG_LIKELIHOOD = Published(
    PROBIT,
    {
        "ionosphere": _row((-0.333, 0.022), (-0.333, 0.022), (-0.333, 0.022), (-0.333, 0.022)),
        "madelon": _row((-0.799, 0.006), (-0.920, 0.008), (-0.953, 0.009), (-0.953, 0.009)),
        "pima": _row((-0.501, 0.010), (-0.501, 0.010), (-0.501, 0.010), (-0.501, 0.010)),
        "colon": _row((-2.261, 0.402), (-2.264, 0.403), (-2.268, 0.404), (-2.268, 0.404)),
        RANK: _row((1.895, 0.097), (2.290, 0.038), (2.970, 0.073), (2.845, 0.072)),
    },
)
PROBIT_ERROR = Published(
    PROBIT,
    {
        "ionosphere": _row((0.124, 0.008), (0.124, 0.008), (0.123, 0.008), (0.123, 0.008)),
        "madelon": _row((0.445, 0.005), (0.454, 0.004), (0.457, 0.005), (0.457, 0.005)),
        "pima": _row((0.234, 0.006), (0.234, 0.006), (0.235, 0.006), (0.235, 0.006)),
        "colon": _row((0.303, 0.028), (0.307, 0.028), (0.307, 0.028), (0.307, 0.028)),
        RANK: _row((2.322, 0.048), (2.513, 0.039), (2.587, 0.031), (2.578, 0.031)),
    },
)

# The columns of the table are hundredths: an error of 1.51 is 1.51 %, a log-likelihood of −5.51 is
# −0.0551 nats.
MNIST = "Table 2"
MNIST_ERROR = Published(
    MNIST,
    {
        "mnist": {**_row(1.51, 1.44, 1.36, 1.36), -1.0: Estimate(1.33)},
        RANK: {**_row(4.97, 4.03, 2.15, 2.12), -1.0: Estimate(1.73)},
    },
)
MNIST_LOG_LIKELIHOOD = Published(
    MNIST,
    {
        "mnist": {**_row(-5.51, -5.09, -4.68, -4.68), -1.0: Estimate(-4.47)},
        RANK: {**_row(5.00, 4.00, 2.55, 2.45), -1.0: Estimate(1.00)},
    },
)

CEP = "Table 3"
CEP_ERROR = Published(
    CEP,
    {
        "cep": _row((1.28, 0.01), (1.08, 0.01), (1.13, 0.01), (1.14, 0.01)),
        RANK: _row((4.00, 0.00), (1.35, 0.15), (2.05, 0.15), (2.60, 0.13)),
    },
)
CEP_LOG_LIKELIHOOD = Published(
    CEP,
    {
        "cep": _row((-0.93, 0.01), (-0.74, 0.01), (-1.39, 0.03), (-1.38, 0.02)),
        RANK: _row((1.95, 0.05), (1.05, 0.05), (3.40, 0.11), (3.60, 0.11)),
    },
)

# By number of draws K.
GRADIENT_BIAS = Published(
    "Table 4",
    {
        "1": _row(0.2774, 0.1214, 0.0460),
        "5": _row(0.0332, 0.0189, 0.0162),
        "10": _row(0.0077, 0.0013, 0.0001),
    },
)
GRADIENT_DEVIATION = Published(
    "Table 5",
    {
        "1": _row(14.1209, 14.0159, 13.9109),
        "5": _row(12.7953, 12.8418, 12.8984),
        "10": _row(12.3203, 12.4101, 12.5058),
    },
)

# Test log-likelihood of one hidden layer of 50 units (100 for protein) on 20 standard splits.
YARDSTICKS = {
    "VI-G": "Li and Turner 2016: variational Bayes with a factorized Gaussian",
    "VR½": "Li and Turner 2016: the Rényi bound of order ½",
    "DO-0": "Li and Gal 2017: dropout with BB-α, α = 0",
    "DO-½": "Li and Gal 2017: dropout with BB-α, α = ½",
    "DO-1": "Li and Gal 2017: dropout with BB-α, α = 1",
    "HMC": "Li and Gal 2017: Hamiltonian Monte Carlo",
    "PBP": "Gal and Ghahramani, re-run in 2018: probabilistic backpropagation",
    "MCD": "Gal and Ghahramani, re-run in 2018: Monte Carlo dropout",
    "DE": "deep ensembles, with a learned noise level for every input",
    "MCVI": "Wu et al. 2019: Monte Carlo variational inference, a noise level for every input",
    "DVI": "Wu et al. 2019: deterministic variational inference, a noise level for every input",
}
YARDSTICK_LOG_LIKELIHOOD = {
    dataset: dict(zip(YARDSTICKS, numbers, strict=True))
    for dataset, numbers in {
        "boston": (-2.52, -2.46, -2.42, -2.38, -2.50, -2.27, -2.57, -2.40, -2.41, -2.46, -2.41),
        "concrete": (-3.11, -3.09, -2.98, -2.88, -2.96, -2.72, -3.16, -2.93, -3.06, -3.07, -3.06),
        "energy": (-0.77, -1.40, -1.75, -0.74, -0.81, -0.93, -2.04, -1.21, -1.38, -1.03, -1.01),
        "kin8nm": (1.12, 1.14, 0.83, 1.03, 1.10, 1.35, 0.90, 1.14, 1.20, 1.14, 1.13),
        "naval": (6.49, 3.58, 2.80, 2.80, 2.80, 7.31, 3.73, 4.45, 5.63, 5.94, 6.29),
        "power": (-2.82, -2.82, -2.79, -2.78, -2.76, -2.70, -2.84, -2.80, -2.79, -2.80, -2.80),
        "protein": (-2.91, -2.92, -2.87, -2.87, -2.86, -2.77, -2.97, -2.87, -2.83, -2.87, -2.85),
        "wine_red": (-0.96, -0.95, -0.92, -0.92, -0.95, -0.91, -0.97, -0.93, -0.94, -0.92, -0.90),
        "yacht": (-1.77, -1.82, -1.38, -1.08, -1.15, -1.62, -1.63, -1.25, -1.18, -0.68, -0.47),
    }.items()
}
RMSE_YARDSTICKS = ("VI-G", "HMC", "DE")
YARDSTICK_RMSE = {
    dataset: dict(zip(RMSE_YARDSTICKS, numbers, strict=True))
    for dataset, numbers in {
        "boston": (2.89, 2.76, 3.28),
        "concrete": (5.42, 4.12, 6.03),
        "energy": (0.51, 0.48, 2.09),
        "power": (4.07, 3.73, 4.11),
        "protein": (4.45, 3.91, 4.71),
        "wine_red": (0.63, 0.63, 0.64),
        "yacht": (0.81, 0.56, 1.58),
    }.items()
}
