"""The house: where files are, what they import, how long they are, and the staircase of `fit`."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "bbalpha"
PAPER = ROOT / "paper" / "src" / "bbalpha_paper"
TESTS = ROOT / "tests"

# An engine file imports only from the lines above its own.
ENGINE = """
    forks leaving limits probabilities
    arrays beta_ratio options
    count_probabilities shards
    checks clock compiling interrupts layout materialize optimizers progress special streams
    threefry
    batches cache draws noise
    epochs
    chunks
    loop replicas
"""
# A folder, or the root, imports only from itself and from those before it.
ROOMS = [
    "engine",
    "",
    "files",
    "runtime",
    "message_passing",
    "tables",
    "predictor",
    "interfaces",
    "explorer",
    "cli",
    "__main__",
]
# Imports against that order, made inside a function: a posterior writes itself to a file, a run is
# kept if it is to be, and an estimator writes a page about itself.
DEFERRED = {
    ("posterior", "files/posterior_file"),
    ("planning", "runtime/checkpoints"),
    ("planning", "runtime/feeding"),
    ("planning", "runtime/sources"),
    ("planning", "runtime/fingerprints"),
    ("planning", "runtime/failures"),
    ("planning", "runtime/team"),
    ("interfaces/explorable", "explorer/exploring"),
}

# A module of the method without public names, and the module before which to read it.
WITHOUT_PUBLIC_NAMES = {
    "importance": "reweighting",
    "runaway": "convergence",
    "planning": "fitting",
}

EMPTY_NAMES = {"utils", "misc", "common", "helpers", "base"}
LAZY = {
    *(
        "arviz",
        "arviz_stats",
        "flax",
        "matplotlib",
        "numpyro",
        "orbax",
        "pandas",
        "pyarrow",
        "rdkit",
    ),
    *("rich", "safetensors", "sklearn", "typer"),
}

LONGEST_FILE, LONGEST_BODY, MOST_ARGUMENTS = 400, 40, 10
# The public face outside `bbalpha.__all__`: the options of a command, the settings of estimators.
MANY_ARGUMENTS = {
    "fit_table",
    "compare_table",
    "explore_table",
    "run_experiments",
    "Estimator.__init__",
}

# Test files about the repository as a whole, rather than about a module of the same name.
FUZZERS = {"fuzz/test_fuzz_models", "fuzz/test_fuzz_tables"}
WHOLE_TESTS = FUZZERS | {"test_house", "test_readme", "test_docs", "test_examples"}
WHOLE_INTERFACE_TESTS = {"interfaces/test_check_estimator", "interfaces/test_scikit_learn"}


def module_names(package):
    return sorted(path.relative_to(package).with_suffix("").as_posix() for path in files(package))


def files(package):
    return [path for path in package.rglob("*.py") if path.name != "__init__.py"]


def method_order():
    """The modules of the method, in the order of `__init__.pyi`."""
    stub = ast.parse((PACKAGE / "__init__.pyi").read_text())
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    names = [node.module or node.names[0].name for node in imports]
    order = [name for name in names if "." not in name]
    for name, before in WITHOUT_PUBLIC_NAMES.items():
        order.insert(order.index(before), name)
    return order


MODULES = module_names(PACKAGE)
METHOD = method_order()
ENGINE_LEVELS = {
    name: level for level, line in enumerate(ENGINE.split("\n")) for name in line.split()
}


def room_of(module):
    return module if module == "__main__" else module.rpartition("/")[0].partition("/")[0]


def may_import(importer, imported):
    """Whether a module may import another, both as paths such as "engine/draws"."""
    rooms = room_of(importer), room_of(imported)
    if rooms[0] != rooms[1]:
        return ROOMS.index(rooms[0]) > ROOMS.index(rooms[1])
    if rooms[0] == "engine":
        levels = [ENGINE_LEVELS[module.removeprefix("engine/")] for module in (importer, imported)]
        return levels[0] > levels[1]
    if rooms[0] == "":
        return METHOD.index(importer) > METHOD.index(imported)
    return importer != imported


def imports_of(source):
    """The modules of bbalpha that a source imports, and whether inside a function."""
    tree = ast.parse(source)
    inside = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        for name in imported_names(node):
            parts = name.split(".")
            if parts[0] == "bbalpha":
                yield module_of(parts[1:]), id(node) in inside


def imported_names(node):
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom):
        assert node.level == 0, "imports are absolute"
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def module_of(parts):
    """The longest path that is a module or a folder."""
    for length in range(len(parts), 0, -1):
        path = "/".join(parts[:length])
        if path in MODULES or (PACKAGE / path).is_dir():
            return path
    return "__init__"


def violations(importer, source):
    """The imports of a module that go against the order."""
    found = []
    for imported, deferred in imports_of(source):
        is_folder = (PACKAGE / imported).is_dir()
        target = f"{imported}/__init__" if is_folder else imported
        if deferred and (importer, imported) in DEFERRED:
            continue
        if imported == "__init__" or not may_import(importer, target):
            found.append(f"{importer} must not import {imported}")
    return found


def test_every_module_of_the_method_is_in_the_reading_order():
    roots = [name for name in MODULES if "/" not in name and name != "__main__"]
    assert sorted(roots) == sorted(set(METHOD))


def test_every_module_of_the_engine_has_a_level():
    names = [name.removeprefix("engine/") for name in MODULES if name.startswith("engine/")]
    assert sorted(names) == sorted(ENGINE_LEVELS)


@pytest.mark.parametrize("module", MODULES)
def test_imports_flow_one_way(module):
    found = violations(module, (PACKAGE / f"{module}.py").read_text())
    assert not found, "\n".join(found)


@pytest.mark.parametrize(
    ("module", "source", "imported"),
    [
        ("energy", "from bbalpha.training import fit", "training"),
        ("energy", "from bbalpha import training", "training"),
        ("energy", "import bbalpha.training as t", "training"),
        ("energy", "def late():\n    import bbalpha.cli", "cli"),
        ("energy", "import bbalpha as bb", "__init__"),
        ("energy", "from bbalpha import fit", "__init__"),
        ("data", "from bbalpha.models import mlp", "models"),
        ("engine/draws", "from bbalpha.distributions import Distribution", "distributions"),
        ("engine/draws", "from bbalpha.engine.epochs import run_steps", "engine/epochs"),
        ("posterior", "from bbalpha.files.posterior_file import read", "files/posterior_file"),
        ("files/model_file", "from bbalpha.cli import app", "cli"),
        ("interfaces/verdict", "from bbalpha.explorer.page import page", "explorer/page"),
        ("explorer/page", "from bbalpha.cli.paths import replacing", "cli/paths"),
    ],
)
def test_an_import_against_the_order_is_found(module, source, imported):
    assert violations(module, source) == [f"{module} must not import {imported}"]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("energy", "import jax\nfrom bbalpha.distributions import Distribution"),
        ("energy", "from bbalpha.engine.draws import map_draws"),
        ("engine/epochs", "from bbalpha.engine.draws import Noise"),
        ("posterior", "def save():\n    from bbalpha.files.posterior_file import write"),
        ("cli/fit", "from bbalpha.cli.doors import Refusal\nfrom bbalpha.tables import Encoder"),
    ],
)
def test_an_import_along_the_order_passes(module, source):
    assert not violations(module, source)


@pytest.mark.parametrize("path", files(PACKAGE) + files(PAPER), ids=lambda path: path.name)
def test_names_say_what_is_in_the_file(path):
    assert not EMPTY_NAMES & {part.strip("_") for part in path.with_suffix("").parts}


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


@pytest.mark.parametrize("path", files(PACKAGE) + files(PAPER), ids=lambda path: path.name)
def test_files_and_functions_are_short(path):
    source = path.read_text()
    assert len(source.splitlines()) <= LONGEST_FILE
    for name, node in functions(ast.parse(source)):
        assert length_of_body(node) <= LONGEST_BODY, name
        if not is_public_face(name):
            assert num_arguments(node) <= MOST_ARGUMENTS, name


def functions(tree, prefix=""):
    """Every function of a tree, by its qualified name."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef):
            yield from functions(node, f"{node.name}.")
        elif isinstance(node, ast.FunctionDef):
            yield prefix + node.name, node
            yield from functions(node)
        else:
            yield from functions(node, prefix)


def length_of_body(function):
    body = function.body[1:] if ast.get_docstring(function) else function.body
    return body[-1].end_lineno - body[0].lineno + 1 if body else 0


def num_arguments(function):
    arguments = function.args
    return len(arguments.posonlyargs + arguments.args + arguments.kwonlyargs)


def is_public_face(name):
    exported = ast.literal_eval(
        re.search(r"__all__ = (\[.*?\])", (PACKAGE / "__init__.pyi").read_text(), re.S)[1]
    )
    return name.partition(".")[0] in exported or name in MANY_ARGUMENTS


@pytest.mark.parametrize("path", sorted(TESTS.rglob("test_*.py")), ids=lambda path: path.stem)
def test_tests_mirror_the_source(path):
    """A test file is named for a module in the same folder, perhaps with a word added."""
    place = path.relative_to(TESTS).with_suffix("")
    if place.as_posix() in WHOLE_TESTS | WHOLE_INTERFACE_TESTS:
        return
    subject = place.with_name(place.name.removeprefix("test_")).as_posix()
    assert any(subject == module or subject.startswith(f"{module}_") for module in MODULES)


TRACE = """
import sys
from functools import cache
from pathlib import Path
import jax, jax.numpy as jnp
import bbalpha as bb

package = Path(bb.__file__).parent
held_out = bb.EarlyStopping(jnp.ones(4), num_samples=5)
calls = set()

@cache
def module_of(file):
    path = Path(file)
    return path.relative_to(package).with_suffix("").as_posix() if package in path.parents else None

def note(frame, event, _):
    if event != "call":
        return
    module = module_of(frame.f_code.co_filename)
    is_nested = "<" in frame.f_code.co_qualname  # a function handed over, called back by its user
    if module in (None, "__init__") or is_nested:
        return
    caller = frame.f_back
    while caller is not None and module_of(caller.f_code.co_filename) is None:
        caller = caller.f_back
    if caller is not None:
        calls.add((module_of(caller.f_code.co_filename), module))

def log_likelihood(mean, batch):
    return jax.scipy.stats.norm.logpdf(batch, mean)

sys.setprofile(note)
bb.fit(log_likelihood, jnp.zeros(()), jnp.ones(4), key=jax.random.key(0), num_epochs=1,
       early_stopping=held_out)
sys.setprofile(None)
for caller, callee in sorted(calls):
    if caller not in (callee, "__init__"):
        print(caller, callee)
"""


def staircase():
    """The steps that CONTRIBUTING.md lists; a module stands on the last step that names it."""
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("## Following `fit`")[2]
    steps = re.findall(r"^\d+\. (.*(?:\n    .*)*)", text.partition("\n## ")[0], re.M)
    return {
        module: number
        for number, step in enumerate(steps)
        for module in re.findall(r"`([a-z_/]+)`", step)
        if module in MODULES
    }


def test_every_call_of_a_fit_goes_down_the_staircase_of_contributing():
    command = [sys.executable, "-c", TRACE]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    calls = [tuple(line.split()) for line in lines]
    floors = staircase()
    assert {module for call in calls for module in call} == set(floors)
    last = max(floors.values())
    upward = [
        (caller, callee)
        for caller, callee in calls
        if floors[caller] >= floors[callee] and not floors[caller] == floors[callee] == last
    ]
    assert not upward
