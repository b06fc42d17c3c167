"""The reports of `tables.py`: log-likelihoods, ranks and broken rules, as Markdown."""

from collections import defaultdict

import numpy as np
import pandas as pd
import small_sets
import table_methods as methods
import table_sets as sets

BELOW_CONSTANT, BELOW_LINEAR = 0.05, 0.1  # nats that the default may lose
COVERAGES = (0.85, 0.95)
LEAST_TESTS = 50  # for the rule about coverage
WIDEST = 1.5  # predictive deviation over the target's
LINEAR = ("bayesian-ridge", "logistic")


def read(folder, tags):
    """All rows of the tags. Our methods are called `tag:method`: a tag stands for settings."""
    frames = []
    for tag in tags:
        frame = pd.read_csv(folder / f"{tag}.csv")
        frame = frame.drop_duplicates(["table", "split", "method"], keep="last")
        is_ours = frame["method"].isin(methods.OURS)
        frame.loc[is_ours, "method"] = tag + ":" + frame["method"]
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)


def pooled(frame):
    """Averages over the splits of every table and method, test rows counting alike."""
    found = {}
    for (table, method), rows in frame.groupby(["table", "method"], sort=False):
        if len(rows) < sets.num_splits(table):
            continue  # not finished
        weights = rows["num_test"]
        columns = rows.drop(columns=["table", "split", "method", "error", "num_test"])
        squares = columns["rmse"] ** 2
        mean = columns.assign(rmse=squares).mul(weights, axis=0).sum(min_count=len(rows))
        mean = mean / weights.sum()
        mean["rmse"] = np.sqrt(mean["rmse"])
        mean["num_test"] = weights.sum()
        found[table, method] = mean
    return pd.DataFrame(found).T


def tables(frame, tags):
    """Log-likelihoods of all methods by half, mean ranks, and broken rules."""
    frame = frame[frame["table"].isin(sets.FACTS)]
    averages = pooled(frame)
    ours = [name for name in averages.index.unique(1) if ":" in name]
    shown = [name for name in [*methods.PEERS, *ours] if name in set(frame["method"])]
    for half, names in sets.halves().items():
        print(f"\n### {half}: log-likelihood per test row, nats\n")
        print_scores(averages, names, shown)
    for name in ours or [None]:
        print_ranks(averages, name)
    for name in ours:
        print_rules(averages, name)


def value(averages, table, method, column="log_likelihood"):
    """A number, NaN if the method failed, None if there is no such row."""
    return averages.at[(table, method), column] if (table, method) in averages.index else None


def print_scores(averages, names, shown):
    print(f"| table | rows | {' | '.join(shown)} |\n|---|---:|{'---:|' * len(shown)}")
    for table in names:
        cells = [value(averages, table, method) for method in shown]
        best = max((cell for cell in cells if cell is not None and cell == cell), default=None)
        texts = [written(cell, best) for cell in cells]
        print(f"| {table} | {sets.FACTS[table][1]:,} | {' | '.join(texts)} |")


def written(cell, best):
    if cell is None:
        return ""
    if np.isnan(cell):
        return "failed"
    return f"**{cell:.3f}**" if cell == best else f"{cell:.3f}"


def print_ranks(averages, ours):
    """Mean ranks by half and kind; the constant model has none."""
    peers = [name for name in methods.PEERS if name != "constant"]
    ranks = defaultdict(list)
    for half, names in sets.halves().items():
        for table in names:
            scores = {name: value(averages, table, name) for name in (*peers, ours)}
            scores = {name: score for name, score in scores.items() if score is not None}
            if ours is not None and ours not in scores:
                continue
            order = (-pd.Series(scores, dtype=float).fillna(-np.inf)).rank()
            for name, rank in order.items():
                group = "linear" if name in LINEAR else name
                for place in (half, sets.FACTS[table][0], "all"):
                    ranks[group, place].append(rank)
    places = ["dev", "frozen", *sets.KINDS, "all"]
    print(f"\n### Mean rank by log-likelihood{f', {ours}' if ours else ''}\n")
    print(f"| method | {' | '.join(places)} |\n|---|{'---:|' * len(places)}")
    groups = sorted({group for group, _ in ranks}, key=lambda group: np.mean(ranks[group, "all"]))
    for group in groups:
        found = [ranks.get((group, place)) for place in places]
        cells = [f"{np.mean(one):.2f} ({len(one)})" if one else "" for one in found]
        print(f"| {group} | {' | '.join(cells)} |")


def print_rules(averages, ours):
    """Every table on which a rule is broken."""
    print(f"\n### Rules, {ours}\n\n| table | half | tests | broken rule |\n|---|---|---:|---|")
    counts = defaultdict(int)
    for half, names in sets.halves().items():
        for table in names:
            if (table, ours) in averages.index:
                tests = int(value(averages, table, ours, "num_test"))
                for rule, text in broken(averages, table, ours):
                    counts[rule] += 1
                    print(f"| {table} | {half} | {tests} | {text} |")
    print("\n" + (", ".join(f"{rule}: {number}" for rule, number in counts.items()) or "none"))
    own = averages.xs(ours, level=1)
    kinds = [sets.FACTS[table][0] for table in own.index]
    columns = ["coverage", "relative_deviation", "overconfidence", "seconds"]
    print(f"\nMeans of {ours} by kind:\n\n{own[columns].groupby(kinds).mean().round(3)}")


def broken(averages, table, ours):
    score = value(averages, table, ours)
    if np.isnan(score):
        yield "failed", "failed"
        return
    allowed = {"constant": BELOW_CONSTANT} | dict.fromkeys(LINEAR, BELOW_LINEAR)
    for peer, least in allowed.items():
        other = value(averages, table, peer)
        if other is not None and score < other - least:
            yield f"below {peer}", f"{score:.3f}, {peer} {other:.3f}: {score - other:.3f}"
    own = averages.loc[table, ours]
    if own["num_test"] >= LEAST_TESTS and not np.isnan(own["coverage"]):
        low, high = COVERAGES
        if not low <= own["coverage"] <= high:
            error = np.sqrt(0.09 / own["num_test"])
            yield "coverage", f"coverage {own['coverage']:.3f} (standard error {error:.3f})"
    if own["relative_deviation"] > WIDEST:
        yield "too wide", f"deviation {own['relative_deviation']:.2f} × the target's"


def sizes(frame, tags):
    """Scores against the number of training rows: width, and falls beyond two standard errors."""
    frame = frame[frame["table"].str.contains("@")]
    averages = pooled(frame)
    shown = list(frame["method"].unique())
    for table in sets.SIZED_TABLES:
        print(f"\n### {table}: log-likelihood (predictive deviation over the target's)\n")
        print(f"| rows | {' | '.join(shown)} |\n|---:|{'---:|' * len(shown)}")
        for size in sets.SIZES:
            cells = [sized_cell(averages, f"{table}@{size}", method) for method in shown]
            print(f"| {size} | {' | '.join(cells)} |")
    for method in (name for name in shown if ":" in name):
        for table in sets.SIZED_TABLES:
            for text in falls(frame, averages, table, method):
                print(f"\n{method}, {table}: {text}")


def sized_cell(averages, name, method):
    score = value(averages, name, method)
    if score is None:
        return ""
    deviation = value(averages, name, method, "relative_deviation")
    return f"{score:.3f}" + ("" if np.isnan(deviation) else f" ({deviation:.2f})")


def small(frame, tags):
    """Log-likelihoods and coverages on the small tables by half, and broken rules."""
    averages = pooled(frame[frame["table"].str.startswith("small-")])
    ours = [name for name in averages.index.unique(1) if ":" in name]
    shown = ["constant", *LINEAR, *ours]
    heads = [*shown, *(f"coverage, {name}" for name in ours)]
    print(f"| table | rows | {' | '.join(heads)} |\n|---|---:|{'---:|' * len(heads)}")
    tables = [name for half in "ab" for name in small_sets.names(half)]
    for table in tables:
        cells = [value(averages, table, method) for method in shown]
        cells += [value(averages, table, method, "coverage") for method in ours]
        texts = ["" if cell is None or np.isnan(cell) else f"{cell:.2f}" for cell in cells]
        print(f"| {table[6:]} | {small_sets.facts(table)[1]} | {' | '.join(texts)} |")
    for method in ours:
        for table in tables:
            if (table, method) in averages.index:
                for _, text in broken(averages, table, method):
                    print(f"{method}, {table}: {text}")


def falls(frame, averages, table, method):
    """What breaks the rules about sizes."""
    scores = {}
    for size in sets.SIZES:
        rows = frame[(frame["table"] == f"{table}@{size}") & (frame["method"] == method)]
        scores[size] = rows.set_index("split")["log_likelihood"]
        deviation = value(averages, f"{table}@{size}", method, "relative_deviation")
        if deviation is not None and deviation > WIDEST:
            yield f"{size} rows: deviation {deviation:.2f} × the target's"
    for before, after in zip(sets.SIZES[:-1], sets.SIZES[1:], strict=True):
        change = (scores[after] - scores[before]).dropna()
        error = change.std() / np.sqrt(max(len(change), 1))
        if len(change) > 1 and change.mean() < -2 * error:
            yield f"from {before} to {after} rows: {change.mean():.3f} ± {error:.3f}"


def uci(frame, tags):
    """Log-likelihoods on the sets of the paper, and paired differences from our first tag."""
    frame = frame[frame["table"].str.startswith("uci-") & frame["method"].str.contains(":")]
    scores = frame.pivot_table(
        index=["table", "split"], columns="method", values="log_likelihood", dropna=False
    ).dropna(how="all")
    order = [name for tag in tags for name in scores if name.startswith(f"{tag}:")]
    first, *others = order
    print("|", " | ".join(["set", *order, *(f"{other} − {first}" for other in others)]), "|")
    print("|---|" + "---:|" * (len(order) + len(others)))
    for table, rows in scores.groupby(level=0):
        changes = [with_error(rows[other] - rows[first]) for other in others]
        print(f"| {table} | {' | '.join([with_error(rows[name]) for name in order] + changes)} |")
    for other in others:
        change = (scores[other] - scores[first]).groupby(level=0).mean()
        print(f"\nMean over {len(change.dropna())} sets of {other} − {first}: {with_error(change)}")


def with_error(values):
    values = values.dropna()
    return f"{values.mean():.3f} ± {values.std() / np.sqrt(max(len(values), 1)):.3f}"


REPORTS = {"tables": tables, "sizes": sizes, "uci": uci, "small": small}
