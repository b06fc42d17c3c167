"""Facts about dates: every common form is the same day, and what no calendar has is none."""

from datetime import date, datetime, timedelta

import numpy as np
import pyarrow
import pytest

from bbalpha.tables.cells import typed_column
from bbalpha.tables.dates import read_dates


def read(*texts, dayfirst=None):
    return read_dates(typed_column(pyarrow.array(texts, pyarrow.string())), dayfirst)


def days(moment):
    return (moment - datetime(1970, 1, 1)) / timedelta(days=1)


FORMS = {
    "%Y-%m-%d": None,
    "%Y/%m/%d": None,
    "%d/%m/%Y": True,
    "%m/%d/%Y": False,
    "%d.%m.%Y": True,
    "%d-%m-%y": True,
    "%d %b %Y": None,
    "%d-%b-%y": None,
    "%d %B %Y": None,
    "%B %d, %Y": None,
    "%b %d %Y": None,
    "%a, %d %b %Y": None,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("time", ["", " %H:%M", "T%H:%M:%S", " %I:%M %p", ", %H:%M:%SZ"])
def test_every_common_form_is_the_same_day(form, time):
    rng = np.random.default_rng(0)
    moments = [
        datetime(1990, 1, 13) + timedelta(days=int(d), hours=int(h), minutes=7)
        for d, h in zip(rng.integers(0, 9000, 50), rng.integers(0, 24, 50), strict=True)
    ]
    moments = [
        moment if time else datetime.combine(moment, datetime.min.time()) for moment in moments
    ]
    found = read(*(moment.strftime(form + time) for moment in moments))
    np.testing.assert_allclose(found.days, [days(m) for m in moments], rtol=0, atol=1e-9)
    assert (found.dayfirst, found.two_ways) == (FORMS[form], None)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2020-01-01T10:00+02:00", datetime(2020, 1, 1, 8)),
        ("2020-01-01 10:00:00-0530", datetime(2020, 1, 1, 15, 30)),
        ("2020-01-01 10:00 UTC", datetime(2020, 1, 1, 10)),
        ("1/2/2020 12:30 am", datetime(2020, 2, 1, 0, 30)),
        ("1/2/2020 12:30 PM", datetime(2020, 2, 1, 12, 30)),
        ("3rd March 2001", datetime(2001, 3, 3)),
        ("2020-03", datetime(2020, 3, 1)),
        ("Sept 2020", datetime(2020, 9, 1)),
        ("1/2/69", datetime(1969, 2, 1)),
        ("1/2/68", datetime(2068, 2, 1)),
    ],
)
def test_zones_halves_of_days_and_short_forms(text, expected):
    assert read(text, dayfirst=True).days[0] == pytest.approx(days(expected), abs=1e-9)


def test_dates_far_from_today_are_read_with_fractions_of_seconds():
    found = read("0001-01-01", "9999-12-31", "1970-01-01T00:00:00.864000123").days
    expected = [(date(1, 1, 1) - date(1970, 1, 1)).days, 2932896, 1e-5]
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize(
    "text",
    ["2020-02-30", "2020-13-01", "31/4/2020", "0/1/2020", "2020-01-01 24:00", "2020-01-01 10:60",
     "1/2/2020 13:00 pm", "31 Foo 2020", "20200101", "2019-20", "1/2", "1.2.3.4", "soon"],
)  # fmt: skip
def test_what_no_calendar_has_is_no_date(text):
    assert np.isnan(read(text, dayfirst=True).days[0])


def test_the_cells_of_a_column_decide_which_number_is_the_day():
    assert read("03/04/2020", "13/04/2020").dayfirst is True
    assert read("03/04/2020", "03/13/2020").dayfirst is False
    assert read("03.04.2020").dayfirst is True
    undecided = read("04/04/2020", "03/04/2020")
    assert undecided.two_ways == 1
    for dayfirst, month in ((True, 4), (False, 3)):
        found = read("03/04/2020", dayfirst=dayfirst)
        assert found.two_ways is None
        day = 3 if dayfirst else 4
        assert found.days[0] == days(datetime(2020, month, day))
    assert read("04/04/2020").two_ways is None
