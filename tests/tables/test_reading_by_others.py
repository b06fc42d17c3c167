"""A CSV file holds the same cells for `read_table`, for pandas and for arrow."""

import csv
import io

import pandas
import pyarrow
import pyarrow.csv
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bbalpha.tables import read_table

CELLS = st.text(st.sampled_from("ab,;\t|\"' \n1é0.-😀"), max_size=6)
# A first cell that is never blank: pandas and arrow take a line of blanks for a row or for none.
ROWS = st.lists(st.tuples(st.just("x"), CELLS, CELLS), min_size=1, max_size=8)


@settings(
    max_examples=100,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rows=ROWS, quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]))
def test_pandas_and_arrow_read_the_same_cells(tmp_path, rows, quoting):
    buffer = io.StringIO()
    csv.writer(buffer, quoting=quoting, lineterminator="\n").writerows([["a", "b", "c"], *rows])
    path = tmp_path / "table.csv"
    path.write_bytes(buffer.getvalue().encode())
    found = rows_of(read_table(path))
    by_pandas = pandas.read_csv(path, dtype=str, na_filter=False)
    assert found == rows_of(pyarrow.Table.from_pandas(by_pandas, preserve_index=False))
    assert found == rows_of(by_arrow(path))


def by_arrow(path):
    return pyarrow.csv.read_csv(
        path,
        parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True),
        convert_options=pyarrow.csv.ConvertOptions(
            column_types=dict.fromkeys("abc", pyarrow.string()), strings_can_be_null=False
        ),
    )


def rows_of(table):
    """The cells as text, an empty one where there is none."""
    return [tuple(cell or "" for cell in row.values()) for row in table.to_pylist()]
