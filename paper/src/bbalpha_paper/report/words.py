"""Words: how numbers, powers, times and settings are printed."""

import math
from typing import Any

from bbalpha_paper.report.document import Cell
from bbalpha_paper.report.statistics import Estimate

NONE = "—"
BEYOND = 2.0  # standard errors beyond which a difference is bold
SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
SETTINGS = {
    "scale": "scale",
    "num_samples": "draws K in training",
    "batch_size": "minibatch",
    "num_epochs": "epochs",
    "learning_rate": "Adam's rate",
    "resample_every": "minibatches per draw of the noise",
    "hidden": "hidden units",
    "variance": "variance of q",
    "num_data": "data points",
    "num_train": "training rows",
    "num_nodes": "quadrature nodes per weight",
    "num_test_samples": "draws K in testing",
    "compared_samples": "draws K compared",
    "reference_samples": "draws of the reference",
    "block_samples": "draws per block",
    "prior_deviation": "prior standard deviation",
    "tolerance": "gradient tolerance",
}


def alpha_name(alpha: float) -> str:
    """A power as it is usually written.

    >>> from bbalpha_paper.report.words import alpha_name
    >>> [alpha_name(alpha) for alpha in (1.0, 0.5, 1e-6, 0.0, -1.0)]
    ['1', '0.5', '10⁻⁶', 'VB (α = 0)', '−1']
    """
    if alpha == 0:
        return "VB (α = 0)"
    exponent = round(math.log10(abs(alpha)))
    if abs(alpha) < 1e-3 and math.isclose(abs(alpha), 10.0**exponent):
        return f"{'−' if alpha < 0 else ''}10{str(exponent).translate(SUPERSCRIPTS)}"
    return number(alpha, None)


def alpha_tick(alpha: float) -> str:
    """A power where there is little room, such as on an axis or in a list."""
    return "VB" if alpha == 0 else alpha_name(alpha)


def alpha_label(alpha: float) -> str:
    """A power where the context does not say that it is one."""
    return alpha_name(alpha) if alpha == 0 else f"α = {alpha_name(alpha)}"


def number(value: int | float | None, digits: int | None, signed: bool = False) -> str:
    """A number with this many decimals, or as many as it needs, and a true minus sign."""
    if value is None:
        return NONE
    text = f"{value:g}" if digits is None else f"{value:,.{digits}f}"
    if float(text.replace(",", "")) == 0:
        text = text.removeprefix("-")
    elif signed and value > 0:
        text = f"+{text}"
    return text.replace("-", "−")


def small_number(value: float) -> str:
    """A positive, possibly tiny number, with one digit.

    >>> from bbalpha_paper.report.words import small_number
    >>> small_number(3.2e-7)
    '3 · 10⁻⁷'
    """
    digit, _, exponent = f"{value:.0e}".partition("e")
    return f"{digit} · 10{str(int(exponent)).translate(SUPERSCRIPTS)}" if value else "0"


def upper_bound(value: float) -> str:
    """A positive number, rounded up to one digit.

    >>> from bbalpha_paper.report.words import upper_bound
    >>> upper_bound(3.2e-7)
    '4 · 10⁻⁷'
    """
    rounded = float(f"{value:.0e}")
    digit = 10.0 ** math.floor(math.log10(value)) if value else 0.0
    return small_number(rounded if rounded >= value else rounded + digit)


def estimate_text(value: Estimate | None, digits: int, signed: bool = False) -> str:
    """A mean ± its standard error, with more decimals if the error is small.

    >>> from bbalpha_paper.report.words import Estimate, estimate_text
    >>> estimate_text(Estimate(0.00052, 0.00003), 3)
    '0.00052 ± 0.00003'
    """
    if value is None:
        return NONE
    error = value.standard_error
    if error is None:
        return number(value.mean, digits, signed)
    digits = _decimals(error, digits) or digits
    return f"{number(value.mean, digits, signed)} ± {error:.{digits}f}"


def estimate_cell(value: Estimate | None, digits: int) -> Cell:
    """A mean of ours."""
    return Cell(estimate_text(value, digits))


def published_cell(value: Estimate | None, digits: int) -> Cell:
    """A published mean."""
    return Cell(estimate_text(value, digits), "published")


def distance_cell(value: float | None) -> Cell:
    """A number of standard errors, bold if large."""
    return Cell(number(value, 1, signed=True), _kind(value))


def paired_cell(value: Estimate | None, digits: int) -> Cell:
    """A paired difference, bold if neither chance nor rounding explains it."""
    text = estimate_text(value, digits, signed=True)
    if value is None or not value.standard_error or not _decimals(value.standard_error, digits):
        return Cell(text)
    return Cell(text, _kind(value.mean / value.standard_error))


def count(amount: int, noun: str) -> str:
    """The amount with its noun: 1 split, 2,000 splits."""
    return f"{amount:,} {noun}{'' if amount == 1 else 's'}"


def time(seconds: float) -> str:
    """A time in the two units that matter.

    >>> from bbalpha_paper.report.words import time
    >>> [time(seconds) for seconds in (0.25, 12.34, 75.0, 3700.0, 93600.0)]
    ['0.25 s', '12.3 s', '1 min 15 s', '1 h 1 min', '1 d 2 h']
    """
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours < 24 else f"{hours // 24} d {hours % 24} h"


def setting_name(name: str) -> str:
    """The name of a setting in words."""
    return SETTINGS.get(name, name.replace("_", " "))


def setting_text(value: Any) -> str:
    """The value of a setting."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, dict):
        return "; ".join(f"{name}: {setting_text(entry)}" for name, entry in value.items())
    if isinstance(value, list):
        nested = any(isinstance(entry, list) for entry in value)
        texts = map(setting_text, value)
        return ", ".join(f"({text})" if nested else text for text in texts)
    if isinstance(value, int) and abs(value) >= 1000:
        return f"{value:,}".replace("-", "−")
    return number(value, None) if isinstance(value, int | float) else str(value)


def _decimals(error: float, digits: int) -> int | None:
    """How many decimals show that an error is not 0: `digits`, or up to two more."""
    return next((more for more in range(digits, digits + 3) if round(error, more)), None)


def _kind(ratio: float | None) -> str:
    return "beyond" if ratio is not None and abs(ratio) > BEYOND else ""
