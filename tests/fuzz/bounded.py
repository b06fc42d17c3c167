"""What the fuzzers share: many mutated files, each used within bounds of time and memory.

A run writes its figures in parts to a record, and goes on where the record ends.
"""

import argparse
import json
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import jax

LONGEST = 500  # characters of a message
PART = 200  # files between two lines of the record
MOST_KEPT = 1500  # megabytes of the process at which compiled programs are dropped


class Fuzzer(NamedTuple):
    """One kind of file.

    Attributes:
        what: The files in words.
        mutated: From a seed and a number to the name of a file, its content and what was done.
        used: From the path and what was done to what became of the file, a word or two; raises if
            it breaks a rule.
        seconds: The most CPU time that a file may take.
        megabytes: The most memory that it may add to the process.
    """

    what: str
    mutated: Callable
    used: Callable
    seconds: float
    megabytes: float

    def command(self, description, num_files):
        """Run the command line, for so many files unless it says otherwise; return its code."""
        parser = argparse.ArgumentParser(description=description)
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--files", type=int, default=num_files)
        parser.add_argument("--seconds", type=float, default=float("inf"))
        parser.add_argument("--record", type=Path, help="file of results, where a run goes on")
        parser.add_argument("--only", type=int, help="the number of a single file")
        args = parser.parse_args()
        jax.config.update("jax_disable_most_optimizations", True)  # most of the time is compiling
        if args.only is None:
            return (
                1 if self.report(self.run(args.seed, args.files, args.seconds, args.record)) else 0
            )
        with tempfile.TemporaryDirectory() as folder:
            path, done = self.written(args.seed, args.only, folder)
            print(path.name, done)
            print(self.used(path, done))
        return 0

    def run(self, seed, num_files, seconds, record):
        """Every part of the run, those of an earlier one included."""
        parts, until = recorded(record, seed), time.monotonic() + seconds
        done = max((part["end"] for part in parts), default=0)
        while done < num_files and time.monotonic() < until:
            parts.append(self.part(seed, done, min(done + PART, num_files), until))
            done = parts[-1]["end"]
            if record is not None:
                with record.open("a") as file:
                    file.write(json.dumps(parts[-1]) + "\n")
        return parts

    def part(self, seed, first, end, until=float("inf")):
        """What became of the files of these numbers, as far as time allows: a part of a record."""
        outcomes, problems, costs = Counter(), [], [{"seconds": 0.0, "megabytes": 0.0}]
        with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
            warnings.simplefilter("ignore")
            for number in range(first, end):
                if time.monotonic() > until:
                    end = number
                    break
                outcome, found, cost = self.tried(seed, number, folder)
                outcomes[outcome] += 1
                problems += found
                costs.append(cost)
                if peak() > MOST_KEPT:
                    jax.clear_caches()
        most = {name: max(cost[name] for cost in costs) for name in costs[0]}
        total = sum(cost["seconds"] for cost in costs)
        place = {"seed": seed, "first": first, "end": end}
        return place | {"outcomes": outcomes, "problems": problems, "most": most, "total": total}

    def tried(self, seed, number, folder):
        """What became of one file, the problems found, and its cost."""
        path, done = self.written(seed, number, folder)
        before, start = forgotten_peak(), time.process_time()
        problems = []
        try:
            outcome = self.used(path, done)
        except Exception as error:
            outcome = "a defect"
            last = traceback.extract_tb(error.__traceback__)[-1]
            kind = f"{type(error).__name__} at {Path(last.filename).name}:{last.lineno}"
            problems.append(f"{number} {done}: {kind}: {error}"[:600])
        cost = {"seconds": time.process_time() - start, "megabytes": peak() - before}
        if cost["seconds"] > self.seconds or cost["megabytes"] > self.megabytes:
            problems.append(f"{number} {done}: {cost}")
        path.unlink()
        return outcome, problems, cost

    def written(self, seed, number, folder):
        """The path of a mutated file, and what was done to it."""
        name, content, done = self.mutated(seed, number)
        path = Path(folder, name)
        path.write_bytes(content)
        return path, done

    def report(self, parts):
        """Print the figures of all parts; return how many problems there are."""
        problems = [problem for part in parts for problem in part["problems"]]
        outcomes = sum((Counter(part["outcomes"]) for part in parts), Counter())
        counts = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.most_common())
        seconds, megabytes = (
            max((part["most"][name] for part in parts), default=0.0)
            for name in ("seconds", "megabytes")
        )
        if problems:
            print("\n".join(problems))
        print(f"{sum(outcomes.values()):,} {self.what}: {counts}.")
        print(f"{len(problems)} problems. {sum(part['total'] for part in parts):.0f} CPU seconds.")
        print(f"The most costly file took {seconds:.1f} CPU seconds, another {megabytes:.0f} MB.")
        return len(problems)


def check_sentence(error):
    """Check that a message may be shown: printable, short, and with an end."""
    message = str(error)
    assert message.isprintable(), f"not printable: {message!r}"
    assert len(message) < LONGEST, f"{len(message)} characters: {message!r}"
    assert message.endswith("."), f"not a sentence: {message!r}"


def damaged(content, stream):
    """Bits flipped, or bytes cut off, lost or added."""
    place = int(stream.integers(len(content) + 1))
    match stream.integers(4):
        case 0:
            changed = bytearray(content)
            for place in stream.integers(0, len(content), stream.integers(1, 9)):
                changed[place] ^= 1 << int(stream.integers(8))
            return bytes(changed)
        case 1:
            return content[:place]
        case 2:
            return content[:place] + content[place + int(stream.integers(1, 65)) :]
    return content[:place] + stream.bytes(int(stream.integers(1, 9))) + content[place:]


def recorded(path, seed):
    """The parts that an earlier run has written."""
    if path is None or not path.exists():
        return []
    parts = [json.loads(line) for line in path.read_text().splitlines()]
    return [part for part in parts if part["seed"] == seed]


def forgotten_peak():
    """The memory of the process in megabytes, from which its peak is measured anew."""
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")
    return peak()


def peak():
    """The most memory of the process so far, in megabytes; 0 where the system does not say."""
    status = Path("/proc/self/status")
    if not status.exists():
        return 0.0
    line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
    return int(line.split()[1]) / 1000
