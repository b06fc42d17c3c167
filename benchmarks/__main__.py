"""Measure everything and write docs/benchmarks.md: `make bench`.

`python benchmarks --only steps` measures one part and writes that. `python benchmarks --only answer
--against ../before/src` compares the time to the first answer with another source tree.
`BBALPHA_DATA=folder python benchmarks --only ep --gpy /path/to/python` times EP, in an
environment that has `bbalpha_paper`; GPy is left out unless an interpreter that has it is named.
"""

import argparse
import datetime
from functools import partial
from pathlib import Path

import convergence
import expectation_propagation
import felt
import growth
import numpyro_steps
import pictures
import problems
import profiles
import steps
import tried
from timing import Line, machine, progress, seconds

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=PARTS)
    parser.add_argument("--against", help="the folder src of another tree, for the part answer")
    parser.add_argument("--gpy", help="an interpreter that has GPy, for the part ep")
    arguments = parser.parse_args()
    chosen = arguments.only
    if chosen == "answer" and not arguments.against:
        parser.error("--only answer needs --against, the folder src of another tree")
    PARTS["answer"] = partial(answer_part, against=arguments.against)
    PARTS["ep"] = partial(ep_part, gpy=arguments.gpy)
    with progress() as bar:
        task = bar.add_task("starting", total=None)
        say = lambda text: bar.update(task, description=text)  # noqa: E731
        for name, part in PARTS.items():
            is_asked_for = name == "answer" and arguments.against
            if chosen == name or (chosen is None and (is_asked_for or name not in ON_REQUEST)):
                report = part(say)
                write(name, report)
                bar.console.print(report, markup=False, highlight=False, soft_wrap=True)


def steps_part(say):
    lines = []

    def compare(problem, num_steps, candidates, repetitions):
        say(f"steps of {problem.name}: {', '.join(candidates)}")
        made = {name: make(problem, num_steps) for name, make in candidates.items()}
        times = seconds(made, repetitions)
        return {name: 1e3 * value / num_steps for name, value in times.items()}

    every_ten = {
        "every 10": lambda problem, number: steps.ours(problem, number, 10),
        "naive, every 10": lambda problem, number: steps.naive(problem, number, 10),
    }
    common = {
        "ours": steps.ours,
        "naive": steps.naive,
        "NumPyro": steps.numpyros,
        "products": steps.products,
    }

    def add(what, times, name, against, target=None):
        lines.append(Line(what, times[name], "ms", against, times[against], target))

    times = compare(problems.probit(), 1000, common, 15)
    what = "(a) probit, D = 34, \\|S\\| = 32, K = 100"
    add(what, times, "ours", "NumPyro", 0.5)
    add(what, times, "ours", "naive")
    add(what, times, "ours", "products")

    times = compare(problems.regression(), 100, common | every_ten, 15)
    what = "(b) network 13-100-1, \\|S\\| = 32, K = 100"
    add(what, times, "ours", "NumPyro", 0.5)
    add(what, times, "ours", "naive")
    add(what, times, "ours", "products")
    add(f"{what}, redrawn every 10", times, "every 10", "NumPyro", 0.25)
    add(f"{what}, redrawn every 10", times, "every 10", "naive, every 10")
    say("steps of (b): lightning-uq-box")
    problem = problems.regression()
    (seconds_of_lightning,) = seconds({"": steps.lightnings(problem, 1)}, 5).values()
    times["lightning-uq-box"] = 1e3 * seconds_of_lightning
    add(what, times, "ours", "lightning-uq-box", 0.005)
    add(f"{what}, redrawn every 10", times, "every 10", "lightning-uq-box", 0.005)

    once = {"products, forward once": partial(steps.products, again=False)}
    times = compare(problems.classification(), 10, common | every_ten | once, 3)
    what = "(c) network 784-400-400-10, \\|S\\| = 250, K = 50"
    add(f"{what}, redrawn every 10", times, "every 10", "products", 1.5)
    add(f"{what}, redrawn every 10", times, "every 10", "products, forward once")
    add(f"{what}, redrawn every 10", times, "every 10", "naive, every 10", 0.35)
    add(what, times, "ours", "products", 2.2)
    add(what, times, "ours", "naive")
    add(what, times, "ours", "NumPyro")

    say("fifty fits of (a)")
    both = growth.fifty_fits()
    what = "fifty fits of (a), 200 epochs: fits per second of `fit_many`"
    rates = (50 / both["fit_many"], 50 / both["fit"])
    lines.append(Line(what, rates[0], "/s", "`fit`, one by one", rates[1], 2.0, at_least=True))
    return "### One training step\n\n" + table(lines)


def convergence_part(say):
    results = convergence.of_all(say)
    rows = [
        "| problem | bbalpha | former default | ratio | NumPyro, best rate | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for name, ((ours, time), *others) in results.items():
        cells = [_steps_and_seconds(ours, time)]
        for other, its_time in others:
            cells += [_steps_and_seconds(other, its_time), f"{time / its_time:.3g}"]
        cells[3] += f", rate {others[1][0].name}"
        rows.append(f"| {name.replace('_', '-')} | {' | '.join(cells)} |")
    lines = []
    for place, against in ((1, "former default"), (2, "NumPyro, best of four rates")):
        times = [(found[0][1], found[place][1]) for found in results.values()]
        ours, its = (convergence.geometric_mean(column) for column in zip(*times, strict=True))
        lines.append(Line("geometric mean over the ten", ours, "s", against, its, 0.2))
    return "\n\n".join(["### Time to the optimum", "\n".join(rows), table(lines)])


def _steps_and_seconds(found, time):
    sign = "" if found.arrived else "> "
    return f"{sign}{time:.3g} s, {found.num_steps:,} steps"


def growth_part(say):
    curves = {}
    for name, measure in {
        "draws K": growth.with_draws,
        "data N": growth.with_data,
        "hidden units": growth.with_width,
        "replicas": growth.with_replicas,
    }.items():
        say(f"time against {name}")
        curves[name] = measure()
    memory = {}
    for name in ("regression", "classification"):
        say(f"memory against K, {name}")
        memory[name] = growth.memory_with_draws(name)
    pictures.draw(curves, memory, PAGE.parent / "images" / "benchmarks.png")
    parts = ["### How it grows", "![Time and memory against size](images/benchmarks.png)"]
    of_b = "milliseconds per step of (b)"
    parts.append(series(f"Draws K, {of_b}", curves["draws K"]))
    parts.append(series(f"Data points N, {of_b}", curves["data N"]))
    parts.append(series(f"Hidden units, {of_b}", curves["hidden units"]))
    parts.append(
        series("Replicas of (a) in one program, ms per replica and step", curves["replicas"])
    )
    parts.append(series("Draws K, MiB of peak memory, one step of (b)", memory["regression"]))
    parts.append(series("Draws K, MiB of peak memory, one step of (c)", memory["classification"]))
    return "\n\n".join(parts)


def felt_part(say):
    say("imports")
    imports = felt.imports()
    lines = [
        Line("`import bbalpha`", imports["bbalpha"], "s", "`import jax`", imports["jax"], 1.4),
        Line(
            "`import bbalpha; bbalpha.fit`, all of it loaded",
            imports["everything"],
            "s",
            "`import jax`",
            imports["jax"],
            1.4,
        ),
    ]
    say("first and second fit")
    (first, first_compiled), (second, second_compiled) = felt.two_fits()
    lines.append(Line("first fit of the probit example", first, "s"))
    lines.append(Line("second fit of the same shape", second, "s", "the first", first))
    say("predictions")
    cold, times = felt.prediction()
    what = "mean prediction of 100,000 rows, 1,000 draws of a network 13-100-1"
    lines.append(Line(f"{what}, first time", cold, "s", "products", times["products"]))
    lines.append(Line(f"{what}, again", times["predict"], "s", "products", times["products"]))
    facts = (
        f"`bbalpha --help` takes {imports['help'] - imports['python']:.2f} s longer than "
        f"`python -c pass`, which takes {imports['python']:.2f} s (target: at most 0.6 s longer). "
        f"Programs compiled by the first fit: {first_compiled}, by the second: {second_compiled}."
    )
    return f"### What a user feels\n\n{table(lines)}\n\n{facts}"


def answer_part(say, against=None):
    say("first answers, in turns")
    figures = felt.first_answer(against)
    lines, cpu = [], []
    for what, words, targets in (
        ("fit", "README's first `fit`", (0.4, 0.15)),
        ("command", "`bbalpha fit` of 400 rows", (0.4, 0.25)),
    ):
        other = figures[what, "other"]
        for how, target in zip(("cold", "warm"), targets, strict=True):
            this = figures[what, how]
            name = f"{words}, {'no' if how == 'cold' else 'all'} programs on disk"
            lines.append(Line(name, this[0], "s", "the other tree", other[0], target))
            cpu.append(
                f"{name}: {this[1]:.2f} s against {other[1]:.2f} s ({this[1] / other[1]:.2f})"
            )
    facts = "The same in seconds of CPU time, which other processes disturb less: "
    return f"### The first answer\n\n{table(lines)}\n\n{facts}{'; '.join(cpu)}."


def ep_part(say, gpy=None):
    say("EP in new processes")
    calls = expectation_propagation.first_calls()
    lines, cpu = [], []

    def add(what, times, against, reference, target):
        lines.append(Line(what, times[0], "s", against, reference[0], target))
        share = f" ({times[1] / reference[1]:.3g})" if against != "the limit" else ""
        cpu.append(f"{what}: {times[1]:.3g} s against {reference[1]:.3g} s{share}")

    what = "probit EP, N = 10,000, D = 10"
    whole = tuple(map(sum, zip(calls["imports"], calls["first"], strict=True)))
    add(f"{what}, first call", calls["first"], "the limit", (5.0, 5.0), 1)
    add(f"{what}, first call with imports", whole, "the limit", (5.0, 5.0), 1)
    add(f"{what}, again", calls["again"], "the limit", (0.5, 0.5), 1)
    say("EP on Colon")
    add(
        "Colon, 62 × 2,001, again",
        expectation_propagation.warm("colon")[0],
        "the limit",
        (1.0, 1.0),
        1,
    )
    facts = "The same in seconds of CPU time, which other processes disturb less: "
    if gpy:
        say("EP on Pima, in turns with GPy")
        ours, log_evidence, its, (its_evidence, version), mode = expectation_propagation.gpys(gpy)
        add("Pima, 768 × 9, again", ours, f"GPy {version}, {mode}", its, 0.05)
        cpu.append(f"log-evidence {log_evidence:.4f}, GPy's {its_evidence:.4f}")
    return f"### Expectation propagation\n\n{table(lines)}\n\n{facts}{'; '.join(cpu)}."


def numpyro_part(say):
    rows = [
        "| CPU time of a step | `BBAlphaELBO(0.5)` | `Trace_ELBO` | ratio | target | reached |",
        "|---|---|---|---|---|---|",
    ]
    for name, case in numpyro_steps.CASES.items():
        say(f"NumPyro: {name}")
        ours, theirs, of_turns = numpyro_steps.ratio(*case)
        reached = "yes" if of_turns <= numpyro_steps.TARGET else "**no**"
        rows.append(
            f"| {name} | {ours:.3g} ms | {theirs:.3g} ms | {of_turns:.3g} | ≤ "
            f"{numpyro_steps.TARGET} | {reached} |"
        )
    tables = ["\n".join(rows)]
    for chunk in (None, numpyro_steps.CHUNK):
        say("NumPyro: memory")
        found = {count: numpyro_steps.memory(count, chunk) for count in numpyro_steps.PARTICLES}
        how = "all at once" if chunk is None else f"`particle_chunk={chunk}`"
        tables.append(series(f"Particles, MiB set aside for a step of the network, {how}", found))
    return "\n\n".join(["### NumPyro", *tables])


def tried_part(say):
    parts = ["### Pieces, and the alternatives tried"]
    for title, unit, figures in tried.of_all(say):
        rows = [f"| {title} | {unit} |", "|---|---|"]
        rows += [f"| {name} | {value:.3g} |" for name, value in figures.items()]
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def profiles_part(say):
    parts = [
        "### Where the time goes",
        "The kernels that take longest, by their share of the time. The profiler slows small "
        "kernels more than large ones; a transposition shows up as the copy of a reshape or "
        "transpose.",
    ]
    for title, count, longest in profiles.of_all(say):
        rows = [f"| {title}: {count:.0f} kernels a step | share |", "|---|---|"]
        rows += [f"| {name} | {share:.0%} |" for name, share in longest.items()]
        parts.append("\n".join(rows))
    return "\n\n".join(parts)


def table(lines):
    rows = [
        "| what | bbalpha | against | its time | ratio | target | reached |",
        "|---|---|---|---|---|---|---|",
    ]
    for line in lines:
        reference = "" if line.reference is None else f"{line.reference:.3g} {line.unit}"
        ratio = "" if line.ratio is None else f"{line.ratio:.3g}"
        sign = "≥" if line.at_least else "≤"
        target = "" if line.target is None else f"{sign} {line.target:g}"
        rows.append(
            f"| {line.what} | {line.value:.3g} {line.unit} | {line.against} | {reference} "
            f"| {ratio} | {target} | {line.reached} |"
        )
    return "\n".join(rows)


def series(title, values):
    head = f"| {title} | " + " | ".join(f"{size:,}" for size in values) + " |"
    return "\n".join(
        [
            head,
            "|---|" + "---|" * len(values),
            "| | " + " | ".join(f"{value:.3g}" for value in values.values()) + " |",
        ]
    )


def write(name, report):
    """Put a report between its marks on the page; the text around them is written by hand."""
    start, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    before, rest = PAGE.read_text().split(start)
    _, after = rest.split(end)
    title, text = report.split("\n\n", 1)
    today = datetime.date.today().isoformat()
    note = f"`python benchmarks --only {name}` on {today}: {machine()}."
    PAGE.write_text(f"{before}{start}\n{title}\n\n{note}\n\n{text}\n\n{end}{after}")


PARTS = {
    "steps": steps_part,
    "convergence": convergence_part,
    "growth": growth_part,
    "felt": felt_part,
    "answer": answer_part,
    "ep": ep_part,
    "numpyro": numpyro_part,
    "tried": tried_part,
    "profiles": profiles_part,
}

ON_REQUEST = ("answer", "ep")  # they need another tree, or data

if __name__ == "__main__":
    main()
