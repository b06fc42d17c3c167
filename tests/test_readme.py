"""The README and every page of docs/ run as written, and print what they say they print.

The blocks of one page run in order, in one folder. Python blocks share a namespace; of shell blocks
the lines that call `bbalpha` run. A ```text block that comes after such a block, with no other
block or heading between, is what that block must print.
"""

import contextlib
import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import jax
import pandas  # noqa: F401  so that no command hides it from pyarrow in this process
import pytest
from jax.experimental.compilation_cache import compilation_cache
from typer.testing import CliRunner

import bbalpha as bb
from bbalpha.cli import app

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path.relative_to(ROOT).as_posix()
    for path in [ROOT / "README.md", *ROOT.glob("docs/**/*.md")]
    if re.search(r"^ *```(python|sh|console)$", path.read_text(), re.MULTILINE)
)

CACHE_EVERYTHING = {
    "jax_persistent_cache_min_compile_time_secs": 0.0,
    "jax_persistent_cache_min_entry_size_bytes": -1,
}

SHELL_SYNTAX = re.compile(r"[|&;<>*?$`~]")

SAMPLE = """\
# Title

```bash
make demo
```

```python
x = 2
print(x)
# not a heading
```

It prints

```text
2
```

```python
y = x + 1
```

## Layout

```text
src/
```
"""


class Block(NamedTuple):
    """Code or commands, the line of the page on which they start, and what they should print."""

    source: str
    line: int
    printed: str | None
    language: str = "python"


@pytest.fixture(scope="module")
def compiled_programs(tmp_path_factory):
    """A cache of compiled programs: most pages, and the commands on them, share a few models."""
    if jax.config.jax_compilation_cache_dir:
        yield
        return
    folder = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        folder = folder.parent  # of all workers
    settings = {"jax_compilation_cache_dir": str(folder / "compiled")} | CACHE_EVERYTHING
    before = {name: getattr(jax.config, name) for name in settings}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in settings.items():
            patch.setenv(name.upper(), str(value))  # for commands that a shell runs
            jax.config.update(name, value)
        compilation_cache.reset_cache()
        yield
    for name, value in before.items():
        jax.config.update(name, value)
    compilation_cache.reset_cache()


@pytest.mark.usefixtures("compiled_programs", "optimized")
@pytest.mark.parametrize("page", PAGES)
def test_page_runs_as_written(page, tmp_path, monkeypatch):
    blocks = blocks_of((ROOT / page).read_text())
    assert blocks
    monkeypatch.chdir(tmp_path)
    with jax.numpy_rank_promotion("allow"):  # JAX's default, which the reader has
        run(blocks, ROOT / page)


@pytest.mark.parametrize("fence", ["sh", "console"])
def test_commands_of_the_package_are_found(fence):
    prompt = "$ " if fence == "console" else ""
    lines = ["pip install x", "bbalpha fit a.csv \\", "  --target b", "bbalpha-paper run all"]
    page = f"```{fence}\n" + "".join(f"{prompt}{line}\n" for line in lines) + "```\n"
    page = page.replace("$   ", "  ")  # the second line of a command has no prompt
    (block,) = blocks_of(page)
    assert block.language == "sh"
    assert commands(block.source) == ["bbalpha fit a.csv   --target b"]
    assert blocks_of("```sh\npip install x\n```\n\n```python\nbbalpha\n```\n") == [
        Block("bbalpha\n", line=6, printed=None)
    ]


def test_blocks_are_found_with_their_lines_and_output():
    assert blocks_of(SAMPLE) == [
        Block("x = 2\nprint(x)\n# not a heading\n", line=8, printed="2\n"),
        Block("y = x + 1\n", line=20, printed=None),
    ]


def test_an_indented_block_is_dedented():
    assert blocks_of("- item\n\n  ```python\n  if x:\n      y\n  ```\n") == [
        Block("if x:\n    y\n", line=4, printed=None)
    ]


def test_an_unclosed_block_is_an_error():
    with pytest.raises(ValueError, match="line 3 opens a block that is never closed"):
        blocks_of("text\n\n```python\nx = 1\n")


def test_blocks_share_a_namespace():
    run(blocks_of(SAMPLE), "page.md")


def test_blocks_and_commands_run_in_the_order_of_the_page(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    command = "```sh\nbbalpha --version > version.txt\n```\n"
    reading = (
        "```python\nfrom pathlib import Path\n\nprint(Path('version.txt').read_text()[:7])\n```\n"
    )
    run(blocks_of(command + reading + "```text\nbbalpha\n```\n"), "page.md")
    with pytest.raises(FileNotFoundError):
        run(blocks_of(reading.replace("version", "other") + command), "page.md")


@pytest.mark.parametrize("pipe", ["", " | cat"])
def test_what_a_command_prints_is_compared(pipe):
    page = f"```sh\nbbalpha --version{pipe}\n```\n\n```text\nbbalpha {bb.__version__}\n```\n"
    run(blocks_of(page), "page.md")
    with pytest.raises(AssertionError, match=r"page\.md:2 printed other than the page says"):
        run(blocks_of(page.replace(bb.__version__, "none")), "page.md")


@pytest.mark.parametrize("pipe", ["", " | cat; exit 2"])
def test_a_command_that_fails_is_an_error(pipe):
    page = f"```sh\nbbalpha fit nothing.csv --target x{pipe}\n```\n"
    with pytest.raises(AssertionError, match=r"bbalpha fit nothing\.csv --target x"):
        run(blocks_of(page), "page.md")


def test_wrong_output_names_page_and_line():
    with pytest.raises(AssertionError, match=r"page\.md:8 printed other than the page says"):
        run(blocks_of(SAMPLE.replace("```text\n2\n", "```text\n3\n")), "page.md")


def test_an_error_in_a_block_names_page_and_line():
    with pytest.raises(NameError) as error:
        run(blocks_of(SAMPLE.replace("print(x)", "print(z)")), "page.md")
    last = error.traceback[-1]
    assert (Path(last.path).name, last.lineno + 1) == ("page.md", 9)


def blocks_of(text):
    """The blocks of a page that can be run, each with the ```text block that shows its output."""
    blocks = []
    awaits_output = False
    lines = enumerate(text.splitlines(keepends=True), start=1)
    for number, line in lines:
        fence = re.match(r"( *)(```+)(\w*)", line)
        if not fence:
            awaits_output &= not line.startswith("#")
            continue
        indent, ticks, language = fence.groups()
        content = fenced(lines, number, indent, ticks)
        if language == "text" and awaits_output:
            blocks[-1] = blocks[-1]._replace(printed=content)
        if language == "console":
            language, content = "sh", re.sub(r"(?m)^\$ ", "", content)
        awaits_output = language == "python" or (language == "sh" and bool(commands(content)))
        if awaits_output:
            blocks.append(Block(content, number + 1, None, language))
    return blocks


def fenced(lines, opened, indent, ticks):
    """The text up to the closing fence, which is consumed."""
    content = ""
    for _, line in lines:
        if line.strip() == ticks:
            return content
        content += line.removeprefix(indent)
    raise ValueError(f"line {opened} opens a block that is never closed")


def commands(source):
    """The lines of a shell block that call the command line; a backslash joins two lines."""
    lines = source.replace("\\\n", "").splitlines()
    return [line for line in lines if line.startswith("bbalpha ")]


def run(blocks, page):
    """Executes the blocks of a page in order and compares what they print."""
    namespace = {"__name__": "__main__"}
    for source, line, expected, language in blocks:
        if language == "python":
            # The empty lines make tracebacks show the line of the page.
            code = compile("\n" * (line - 1) + source, page, "exec")
            with contextlib.redirect_stdout(io.StringIO()) as stdout:
                exec(code, namespace)
            printed = stdout.getvalue()
        else:
            printed = "".join(map(run_command, commands(source)))
        if expected is not None:
            assert printed == expected, f"{page}:{line} printed other than the page says"


def run_command(command):
    """What a command prints when it runs as pasted, in the current folder.

    In this process it needs no time to load libraries and shares the programs that the page has
    compiled; only a command with a redirection or a pipe goes to a shell.
    """
    if SHELL_SYNTAX.search(command):
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = os.environ | {"PATH": path}
        result = subprocess.run(
            command, shell=True, env=environment, capture_output=True, text=True, check=False
        )
        code = result.returncode
    else:
        result = CliRunner().invoke(app, shlex.split(command)[1:], catch_exceptions=False)
        code = result.exit_code
    assert code == 0, f"{command}\n{result.stderr}"
    return result.stdout
