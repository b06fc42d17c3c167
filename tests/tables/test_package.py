"""Facts about the package: tables need pandas and pyarrow, and nothing of the method."""

import subprocess
import sys


def test_importing_tables_loads_neither_jax_nor_the_method():
    code = "import sys, bbalpha.tables; print(*sys.modules)"
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    assert "pandas" in loaded
    assert not {"jax", "sklearn", "matplotlib", "typer", "bbalpha.fitting"} & set(loaded)
