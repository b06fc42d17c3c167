"""Periods of the calendar: the phase of a date in its year, week and day."""

import numpy as np

DAYS_PER_YEAR, DAYS_PER_WEEK = 365.2425, 7
SUNDAY = 4  # 1970-01-01 was the fifth day of a week that starts on Sunday


def turns(days: np.ndarray, part: str) -> np.ndarray:
    """Return the phase of a period ("year", "week" or "day"), in turns.

    Args:
        days: Days since 1970-01-01.
        part: The period.
    """
    if part == "year":
        return days / DAYS_PER_YEAR % 1
    if part == "week":
        return (np.floor(days) + SUNDAY) / DAYS_PER_WEEK % 1
    return days % 1
