"""Every Python block of the README and of docs/ runs, and prints what the page says it prints.

The blocks of one page run in order in one namespace. A ```text block that comes after a ```python
block, with no other block or heading between, is what that block must print.
"""

import contextlib
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import jax
import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted(
    path.relative_to(ROOT).as_posix() for path in [*ROOT.glob("README.md"), *ROOT.glob("docs/*.md")]
)

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
    """A piece of code, the line of the page on which it starts, and what it should print."""

    source: str
    line: int
    printed: str | None


@pytest.mark.parametrize("page", PAGES)
def test_page_runs_as_written(page, tmp_path, monkeypatch):
    blocks = python_blocks((ROOT / page).read_text())
    if not blocks:
        pytest.skip(f"{page} has no Python block")
    monkeypatch.chdir(tmp_path)
    with jax.numpy_rank_promotion("allow"):  # JAX's default, which the reader has
        run(blocks, ROOT / page)
    for command in commands((ROOT / page).read_text()):
        run_command(command)


def test_commands_of_the_package_are_found():
    page = "```sh\npip install x\nbbalpha fit a.csv --target b\n```\n\n```python\nbbalpha\n```\n"
    assert commands(page) == ["bbalpha fit a.csv --target b"]


def test_blocks_are_found_with_their_lines_and_output():
    assert python_blocks(SAMPLE) == [
        Block("x = 2\nprint(x)\n# not a heading\n", line=8, printed="2\n"),
        Block("y = x + 1\n", line=20, printed=None),
    ]


def test_an_indented_block_is_dedented():
    assert python_blocks("- item\n\n  ```python\n  if x:\n      y\n  ```\n") == [
        Block("if x:\n    y\n", line=4, printed=None)
    ]


def test_an_unclosed_block_is_an_error():
    with pytest.raises(ValueError, match="line 3 opens a block that is never closed"):
        python_blocks("text\n\n```python\nx = 1\n")


def test_blocks_share_a_namespace():
    run(python_blocks(SAMPLE), "page.md")


def test_wrong_output_names_page_and_line():
    with pytest.raises(AssertionError, match=r"page\.md:8 printed other than the page says"):
        run(python_blocks(SAMPLE.replace("```text\n2\n", "```text\n3\n")), "page.md")


def test_an_error_in_a_block_names_page_and_line():
    with pytest.raises(NameError) as error:
        run(python_blocks(SAMPLE.replace("print(x)", "print(z)")), "page.md")
    last = error.traceback[-1]
    assert (Path(last.path).name, last.lineno + 1) == ("page.md", 9)


def python_blocks(text):
    """The ```python blocks of a page, each with the ```text block that shows its output."""
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
        if language == "python":
            blocks.append(Block(content, number + 1, None))
        elif language == "text" and awaits_output:
            blocks[-1] = blocks[-1]._replace(printed=content)
        awaits_output = language == "python"
    return blocks


def commands(text):
    """The lines of the ```sh blocks of a page that call the command line."""
    blocks = re.findall(r"^```sh\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if line.startswith("bbalpha ")]


def run_command(command):
    """Runs a command as pasted, in the current folder."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    result = subprocess.run(
        command,
        shell=True,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, f"{command}\n{result.stderr}"


def fenced(lines, opened, indent, ticks):
    """The text up to the closing fence, which is consumed."""
    content = ""
    for _, line in lines:
        if line.strip() == ticks:
            return content
        content += line.removeprefix(indent)
    raise ValueError(f"line {opened} opens a block that is never closed")


def run(blocks, page):
    """Executes the blocks of a page in order and compares what they print."""
    namespace = {"__name__": "__main__"}
    for source, line, expected in blocks:
        # The empty lines make tracebacks show the line of the page.
        code = compile("\n" * (line - 1) + source, page, "exec")
        with contextlib.redirect_stdout(io.StringIO()) as stdout:
            exec(code, namespace)
        if expected is not None:
            printed = stdout.getvalue()
            assert printed == expected, f"{page}:{line} printed other than the page says"
