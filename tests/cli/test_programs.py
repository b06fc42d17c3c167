"""Facts about compiled programs that commands keep, and about imports that they avoid."""

import subprocess
import sys
import warnings
from pathlib import Path

import jax
import pandas
import pytest
from jax.experimental.compilation_cache import compilation_cache

from bbalpha.cli.programs import keeping_programs
from bbalpha.engine import cache

SETTINGS = ("jax_compilation_cache_dir", *cache.SETTINGS)


@pytest.fixture(autouse=True)
def _settings():
    """jax without a folder for a test, and afterwards as it was."""
    before = {name: getattr(jax.config, name) for name in SETTINGS}
    jax.config.update("jax_compilation_cache_dir", None)
    yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


def test_a_command_keeps_its_programs(prices, folder, done, tmp_path, monkeypatch):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))
    monkeypatch.setitem(cache.SETTINGS, "jax_persistent_cache_min_compile_time_secs", (0.0, 0.0))
    frame = pandas.read_csv(folder / "prices.csv")
    longer = pandas.concat([frame] * 40)  # a shape that no other test compiles
    longer.to_csv(tmp_path / "longer.csv", index=False)
    done("predict", prices, tmp_path / "longer.csv")
    assert list(tmp_path.rglob("jit__predict_rows-*-cache"))


def test_a_damaged_program_is_compiled_and_kept_again_without_a_word(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path))

    warnings.simplefilter("default")
    for _ in range(2):

        def spoiled(x):
            return x * 3

        with keeping_programs(quiet=False):
            jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)
            assert jax.jit(spoiled)(2.0) == 6
        (entry,) = Path(jax.config.jax_compilation_cache_dir).glob("jit_spoiled-*-cache")
        whole = entry.read_bytes()
        entry.write_bytes(whole[:100])
    assert len(whole) > 100
    assert capsys.readouterr().err == ""


def test_a_folder_that_cannot_be_written_costs_one_line(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").touch()
    monkeypatch.setenv(cache.VARIABLE, str(tmp_path / "file"))
    warnings.simplefilter("default")
    with keeping_programs(quiet=False):
        warnings.warn("something else", stacklevel=1)
    first, second = capsys.readouterr().err.splitlines()
    assert first.startswith("Warning: compiled programs cannot be kept on disk: ")
    assert second == "Warning: something else"
    with keeping_programs(quiet=True):
        pass
    assert capsys.readouterr().err == ""


def test_commands_do_not_wait_for_scipy_stats_but_may_use_it():
    code = """
import sys
from bbalpha.cli.programs import prepare_imports
prepare_imports()
import bbalpha.cli.training
assert "scipy.stats._stats_py" not in sys.modules
import scipy.stats as st
from scipy.stats import norm
assert norm.cdf(0) == st.norm.cdf(0) == 0.5
"""
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_a_fit_runs_without_pandas_which_works_afterwards(tmp_path):
    code = """
import sys
import bbalpha.cli
path, model = sys.argv[1:]
with open(path, "w") as file:
    print("x,town,y", *(f"{k},{'AB'[k % 2]},{k * k}" for k in range(12)), sep="\\n", file=file)
arguments = ["fit", path, "--target", "y", "-o", model, "--epochs", "2", "--hidden", "none"]
bbalpha.cli.app(arguments, standalone_mode=False)
assert "pandas" not in sys.modules
import pyarrow
frame = pyarrow.table({"texts": ["a", None]}).to_pandas()
assert type(frame).__module__.startswith("pandas")
assert pyarrow.Table.from_pandas(frame).column("texts").to_pylist() == ["a", None]
"""
    files = [str(tmp_path / "table.csv"), str(tmp_path / "model.safetensors")]
    subprocess.run([sys.executable, "-c", code, *files], check=True)
