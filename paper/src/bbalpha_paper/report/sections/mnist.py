"""Handwritten digits: error, log-likelihood and ranks by α, and learning curves."""

from bbalpha_paper.report.charts import learning_curves
from bbalpha_paper.report.document import Block, Paragraph
from bbalpha_paper.report.published import MNIST_ERROR, MNIST_LOG_LIKELIHOOD
from bbalpha_paper.report.runs import Runs
from bbalpha_paper.report.scores import Score, compared_with_paper, orders

TITLE = "Handwritten digits"
PLACE = "Section 4.3, Table 2"
INTRODUCTION = (
    "A network with two hidden layers of 400 units. In the paper α = −1 is best in error and in "
    "log-likelihood, VB is best among α ≥ 0, and α = 10⁻⁶ equals VB."
)
HUNDREDTHS = (
    "The tables are in hundredths, like the paper's: an error of 1.36 is 1.36 %, a log-likelihood "
    "of −4.68 is −0.0468 nats. The paper gives no standard errors, so Δ uses ours alone. The "
    "curves use 10 draws, too few to show what the tables show for α = 1. The order with 50 draws, "
    "the authors' number, was added to the order with 1,000 after both had been seen."
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
    """The order of the powers, ours and the paper's."""
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
    caption = f"Learning curves by α, {name}, averaged over seeds"
    return [
        *learning_curves(runs, figure, caption, CURVES),
        compared_with_paper(
            runs,
            LOG_LIKELIHOOD,
            f"100 × test log-likelihood, 1,000 draws, {name} (higher is better)",
            MNIST_LOG_LIKELIHOOD,
        ),
        compared_with_paper(runs, ERROR, f"Test error in %, {name} (lower is better)", MNIST_ERROR),
        compared_with_paper(
            runs,
            LOG_LIKELIHOOD_50,
            f"100 × test log-likelihood, 50 draws, {name} (higher is better)",
            MNIST_LOG_LIKELIHOOD,
            ranked=False,
        ),
    ]
