"""The picture of docs/benchmarks.md."""

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt

BLUE, ORANGE = "#1f5fa8", "#c8641e"


def draw(curves, memory, path):
    """Time against four sizes and memory against K, on logarithmic axes."""
    figure, axes = plt.subplots(1, 5, figsize=(15, 3.2), layout="constrained")
    labels = dict.fromkeys(curves, "ms per step") | {"replicas": "ms per replica and step"}
    for axis, (name, values) in zip(axes, curves.items(), strict=False):
        axis.loglog(list(values), list(values.values()), "o-", color=BLUE)
        axis.set(xlabel=name, ylabel=labels[name])
        axis.set_ylim(min(values.values()) / 3, max(values.values()) * 3)
    for (name, values), color in zip(memory.items(), (BLUE, ORANGE), strict=True):
        label = {"regression": "(b)", "classification": "(c)"}[name]
        axes[-1].semilogx(list(values), list(values.values()), "o-", color=color, label=label)
    highest = max(max(values.values()) for values in memory.values())
    axes[-1].set(xlabel="draws K", ylabel="MiB, peak of one step", ylim=(0, 1.15 * highest))
    axes[-1].legend(frameon=False)
    for axis in axes:
        axis.grid(alpha=0.3)
        axis.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)
