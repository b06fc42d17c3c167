"""The same mutations, guided by coverage: files that reach new lines are changed further.

    pip install atheris
    mkdir new
    PYTHONPATH=tests python tests/fuzz/guided.py models -max_total_time=300 new tests/fuzz/corpus/models

The run starts from the kept files and writes those that reach new lines to `new`, from where the
best may be kept, too. All options are libFuzzer's. A file that breaks a rule is written to crash-…,
with its traceback on the terminal.

The module `fuzz_models` says what is done with a file (`used`), from which files to start
(`originals`) and how to change one (`changed`).
"""  # noqa: E501

import sys
import tempfile
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np

INSTRUMENTED = ["bbalpha.files", "bbalpha.interfaces", "bbalpha.tables", "bbalpha.cli"]
OPTIONS = ["-max_len=20000", "-timeout=60", "-rss_limit_mb=8000"]


def main(name, *options):
    import atheris

    with atheris.instrument_imports(include=INSTRUMENTED):
        module = import_module(f"fuzz.fuzz_{name}")
    warnings.simplefilter("ignore")
    path = Path(tempfile.mkdtemp(), "file")

    def use(content):
        path.write_bytes(content)
        module.used(path)

    def change(content, most, seed):
        stream = np.random.default_rng(seed)
        try:
            return module.changed(content, stream)[0][:most]
        except (
            AttributeError,
            KeyError,
            TypeError,
            ValueError,
            IndexError,
        ):  # it can no longer be taken apart
            originals = module.originals()
            return originals[stream.integers(len(originals))]

    atheris.Setup([sys.argv[0], *OPTIONS, *options], use, custom_mutator=change)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
