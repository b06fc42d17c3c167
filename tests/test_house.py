"""The files of bbalpha stand in a line, and each imports only from those before it."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "bbalpha"

# A file or folder may import from the lines above its own, never from its own line or below.
ORDER = """
    compiling layout memory model_file optimizers progress special targets
    threefry
    data models likelihoods families
    predictive
    checks
    energy
    divergences posterior
    training
    epochs
    loop
    fitting
    metrics
    interfaces
    datasets
    tables
    report
    experiments
    cli
    __main__
    __init__
"""
LEVELS = {name: level for level, line in enumerate(ORDER.split("\n")) for name in line.split()}

EMPTY_NAMES = {"utils", "misc", "common", "helpers", "base"}

LAZY = {
    *("flax", "matplotlib", "numpyro", "orbax", "pandas", "pyarrow", "rdkit"),
    *("rich", "safetensors", "sklearn", "typer"),
}

FILES = sorted(path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("file", FILES)
def test_imports_flow_one_way(file):
    found = violations(file, (PACKAGE / file).read_text())
    assert not found, "\n".join(found)


@pytest.mark.parametrize("file", FILES)
def test_names_say_what_is_in_the_file(file):
    names = Path(file).with_suffix("").parts
    assert not EMPTY_NAMES & {name.strip("_") for name in names}


def test_importing_bbalpha_loads_nothing_before_a_name_is_used():
    assert not (LAZY | {"jax", "numpy"}) & modules_after("import bbalpha")


def test_fitting_leaves_the_heavy_libraries_alone():
    modules = modules_after("import bbalpha; bbalpha.fit, bbalpha.metrics")
    assert "jax" in modules
    assert not LAZY & modules


def modules_after(code):
    """The top-level modules that a fresh interpreter has loaded after running the code."""
    command = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return {module.partition(".")[0] for module in loaded}


@pytest.mark.parametrize(
    ("file", "source", "imported"),
    [
        ("energy.py", "from bbalpha.training import fit", "training"),
        ("energy.py", "from bbalpha import training", "training"),
        ("energy.py", "import bbalpha.training as t", "training"),
        ("energy.py", "from .training import fit", "training"),
        ("energy.py", "from . import families, training", "training"),
        ("energy.py", "def late():\n    import bbalpha.cli", "cli"),
        ("energy.py", "import bbalpha as bb", "__init__"),
        ("energy.py", "from bbalpha import fit", "__init__"),
        ("data.py", "from bbalpha.models import mlp", "models"),
        ("datasets/checkpoints.py", "from ..cli import main", "cli"),
        ("datasets/__init__.py", "from bbalpha_paper.report.tables import table", "report"),
    ],
)
def test_an_import_against_the_order_is_found(file, source, imported):
    (message,) = violations(file, source)
    assert f"must not import {imported}" in message


@pytest.mark.parametrize(
    ("file", "source"),
    [
        ("energy.py", "import jax\nfrom bbalpha.distributions import Family"),
        ("training.py", "from .energy import alpha_energy\nfrom . import posterior"),
        ("datasets/checkpoints.py", "from .sharding import shard\nfrom ..training import FitState"),
        ("datasets/__init__.py", "from .checkpoints import save\nfrom . import sharding"),
        ("datasets/checkpoints.py", "import bbalpha_paper.datasets.sharding"),
        ("__init__.py", "from bbalpha.cli import main\nfrom .data import Dataset"),
    ],
)
def test_an_import_along_the_order_passes(file, source):
    assert not violations(file, source)


def test_a_file_without_a_level_is_told_to_get_one():
    (message,) = violations("novelty.py", "import jax")
    assert message.startswith("novelty has no level: give it one in ORDER")


def violations(file, source):
    """What is wrong with the imports of `source`, the text of `file` (relative to the package)."""
    importer = step_of(file)
    if importer not in LEVELS:
        return [f"{importer} has no level: give it one in ORDER of tests/test_layout.py"]
    return [
        f"{file}:{line}: {importer} must not import {imported}"
        for line, imported in internal_imports(file, source)
        if imported != importer and LEVELS.get(imported, -1) >= LEVELS[importer]
    ]


def internal_imports(file, source):
    """Each import of bbalpha in `source`: its line and the step of the line that it names."""
    package = ("bbalpha", *Path(file).parent.parts)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            targets = [tuple(alias.name.split(".")) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            origin = package[: len(package) - node.level + 1] if node.level else ()
            origin += tuple(node.module.split(".")) if node.module else ()
            targets = [(*origin, alias.name) for alias in node.names]
        else:
            continue
        for target in targets:
            if target[0] == "bbalpha":
                known = len(target) > 1 and target[1] in LEVELS
                submodule = known or len(target) > 2
                yield node.lineno, target[1] if submodule else "__init__"


def step_of(file):
    """The step a file belongs to: its folder in the package, or its own name."""
    return Path(file).with_suffix("").parts[0]
