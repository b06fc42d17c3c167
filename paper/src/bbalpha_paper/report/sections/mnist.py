"""Handwritten digits: error, log-likelihood and ranks by α, and learning curves."""

from bbalpha_paper.report.charts import learning_curves
from bbalpha_paper.report.document import Block, Paragraph
from bbalpha_paper.report.published import MNIST_ERROR, MNIST_LOG_LIKELIHOOD
from bbalpha_paper.report.runs import Runs
from bbalpha_paper.report.scores import Score, beside_paper, orders

TITLE = "Handwritten digits"
PLACE = "Section 4.3, Table mnist_results"
INTRODUCTION = (
    "With a network of two hidden layers of 400 units the paper finds α = −1 best in error and in "
    "log-likelihood, VB best among α ≥ 0, and α = 10⁻⁶ equal to VB."
)
HUNDREDTHS = (
    "The tables are in hundredths, as the paper's: an error of 1.36 is 1.36 %, a log-likelihood "
    "of −4.68 is −0.0468 nats. The paper gives no standard errors, so Δ counts ours alone. The "
    "curves are scores along the way with 10 draws, too few for what the tables say of α = 1. The "
    "order with 50 draws, the authors' number, was put beside that with 1,000 when both had been "
    "seen."
)
ERROR = Score("error", digits=2, higher_is_better=False, factor=100.0)
LOG_LIKELIHOOD = Score("log_likelihood", digits=2, factor=100.0)
LOG_LIKELIHOOD_50 = Score("log_likelihood_50", digits=2, factor=100.0)
CURVES = {
    "curve_log_likelihood": "test log-likelihood (nats)",
    "curve_error": "test error",
    "curve_energy": "energy",
}


def outcome(runs: Runs) -> str:
    """The order of the powers, beside the paper's."""
    return orders(
        runs,
        (
            ("log-likelihood", LOG_LIKELIHOOD, MNIST_LOG_LIKELIHOOD),
            ("log-likelihood with 50 draws", LOG_LIKELIHOOD_50, MNIST_LOG_LIKELIHOOD),
            ("error", ERROR, MNIST_ERROR),
        ),
    )


def blocks(runs: Runs) -> tuple[Block, ...]:
    """Tables and curves of each configuration."""
    found: list[Block] = [Paragraph(HUNDREDTHS)]
    for number, name in enumerate(runs.configurations):
        found += _configuration_blocks(runs.where(configuration=name), f"mnist-{number}", name)
    return tuple(found)


def _configuration_blocks(runs: Runs, figure: str, name: str) -> list[Block]:
    return [
        *learning_curves(runs, figure, f"Learning curves, {name}: means over seeds, by α", CURVES),
        beside_paper(
            runs,
            LOG_LIKELIHOOD,
            f"100 × test log-likelihood, 1,000 draws, {name} (higher is better)",
            MNIST_LOG_LIKELIHOOD,
        ),
        beside_paper(runs, ERROR, f"Test error in %, {name} (lower is better)", MNIST_ERROR),
        beside_paper(
            runs,
            LOG_LIKELIHOOD_50,
            f"100 × test log-likelihood with the authors' 50 draws, {name}",
            MNIST_LOG_LIKELIHOOD,
            ranked=False,
        ),
    ]
