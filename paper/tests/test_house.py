"""The package uses only the public face of bbalpha, and its files import in one direction."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "paper" / "src" / "bbalpha_paper"
LIBRARY = ROOT / "src" / "bbalpha"
FILES = sorted(PACKAGE.rglob("*.py"))

# A file or folder may import from those to its left, never from those to its right.
ORDER = ("writing", "rows", "datasets", "experiments", "report", "cli", "__main__")
MOST_LINES, MOST_BODY_LINES, MOST_ARGUMENTS = 400, 40, 10
EMPTY_NAMES = {"utils", "misc", "common", "helpers", "base"}


def exported(folder):
    """The names in `__all__` of a package, and the version."""
    stub = folder / "__init__.pyi"
    file = stub if stub.is_file() else folder / "__init__.py"
    for node in ast.parse(file.read_text("utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return {*ast.literal_eval(node.value), "__version__"}
    raise AssertionError(f"{file} has no __all__")


PUBLIC = {
    "bbalpha": exported(LIBRARY),
    "bbalpha.files": exported(LIBRARY / "files"),
    "bbalpha.tables": exported(LIBRARY / "tables"),
    "bbalpha.cli": exported(LIBRARY / "cli"),
}


def imports(source, package):
    """Each import as a pair of a module and a name in it; None for the module itself."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            parents = package.split(".")[: 1 - node.level or None] if node.level else []
            module = ".".join([*parents, *filter(None, [node.module])])
            yield from ((module, alias.name) for alias in node.names)


def package_of(file):
    return ".".join(file.relative_to(PACKAGE.parent).parent.parts)


def private_uses(source, package="bbalpha_paper"):
    """Imports and attributes of bbalpha that are not public."""
    for module, name in imports(source, package):
        if module.partition(".")[0] == "bbalpha":
            public = PUBLIC.get(module, set())
            is_whole = name is None and module == "bbalpha"
            if not (is_whole or name in public):
                yield f"{module}.{name}" if name else module
    for node in ast.walk(ast.parse(source)):
        is_attribute = isinstance(node, ast.Attribute) and ast.unparse(node.value) == "bb"
        if is_attribute and node.attr not in PUBLIC["bbalpha"]:
            yield f"bb.{node.attr}"


def later_imports(source, package, own):
    """Imports of parts of this package that do not come before the own part."""
    for module, name in imports(source, package):
        top, _, rest = module.partition(".")
        if top == "bbalpha_paper":
            part = rest.partition(".")[0] or name
            if part != own and ORDER.index(part) >= ORDER.index(own):
                yield part


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_only_the_public_face_of_bbalpha_is_used(file):
    assert not list(private_uses(file.read_text("utf-8"), package_of(file)))


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import bbalpha as bb\nfrom bbalpha.files import replacing\nbb.fit, bb.__version__", []),
        ("from bbalpha import Posterior, metrics\nfrom bbalpha.cli import Refusal", []),
        ("def late():\n    from bbalpha.tables import write_table", []),
        ("from bbalpha.engine import threefry", ["bbalpha.engine.threefry"]),
        ("from bbalpha.posterior import Posterior", ["bbalpha.posterior.Posterior"]),
        ("from bbalpha import engine", ["bbalpha.engine"]),
        ("import bbalpha.engine.layout", ["bbalpha.engine.layout"]),
        ("import bbalpha as bb\nbb.engine.layout", ["bb.engine"]),
        ("from bbalpha.cli.doors import Refusal", ["bbalpha.cli.doors.Refusal"]),
    ],
)
def test_a_private_use_is_found(source, found):
    assert list(private_uses(source)) == found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_imports_flow_one_way(file):
    own = file.relative_to(PACKAGE).with_suffix("").parts[0]
    source = file.read_text("utf-8")
    assert own == "__init__" or not list(later_imports(source, package_of(file), own))


@pytest.mark.parametrize(
    ("own", "source", "found"),
    [
        ("experiments", "from bbalpha_paper import datasets", []),
        ("experiments", "from .plan import Run", []),
        ("report", "from bbalpha_paper.experiments import NAMES", []),
        ("experiments", "from bbalpha_paper import report", ["report"]),
        ("experiments", "from ..cli import app", ["cli"]),
        ("datasets", "import bbalpha_paper.experiments.plan", ["experiments"]),
    ],
)
def test_an_import_against_the_order_is_found(own, source, found):
    assert list(later_imports(source, f"bbalpha_paper.{own}", own)) == found


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.relative_to(PACKAGE).as_posix())
def test_files_and_functions_are_short(file):
    source = file.read_text("utf-8")
    assert len(source.splitlines()) <= MOST_LINES
    assert not EMPTY_NAMES & set(file.relative_to(PACKAGE).with_suffix("").parts)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            body = node.body[1:] if ast.get_docstring(node) else node.body
            if body:
                assert body[-1].end_lineno - body[0].lineno < MOST_BODY_LINES, node.name
            arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
            assert len(arguments) <= MOST_ARGUMENTS, node.name


@pytest.mark.parametrize("file", [*FILES, ROOT / "docs" / "reproduction.md"], ids=lambda f: f.name)
def test_the_paper_is_cited_by_printed_numbers(file):
    """And not by the labels of its source, such as Figure regression_ll."""
    label = r"\b(?:eq|eqs|equation|figure|table|section)s?\.? \(?[a-z0-9]+_\w+"
    assert not re.findall(label, file.read_text("utf-8"), re.IGNORECASE)
