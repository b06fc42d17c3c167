"""Which programs of Adam's steps are worth XLA's newer emitters? First and warm fits with both.

`python benchmarks/emitters.py`. Each fit takes 2,000 steps. A first fit compiles its steps; warm
fits take turns. Processor time, so that a busy machine does little harm.
"""

import time
import warnings
from statistics import median

import jax
import numpy as np

import bbalpha as bb
from bbalpha import fitting
from bbalpha.engine.epochs import quick_steps, run_steps

NUM_STEPS = 2000
KINDS = {"newer": run_steps, "older": quick_steps}
REPETITIONS = 5


def main():
    warnings.simplefilter("ignore")
    print("| fit | products | first, newer | first, older | warm, older / newer |")
    print("|---|---:|---:|---:|---:|")
    for name, fit in cases().items():
        size, first = fit() / 2**20, {}
        for kind in KINDS:
            jax.clear_caches()
            first[kind] = seconds(fit, kind)
        warm = {kind: [] for kind in KINDS}
        for _ in range(REPETITIONS + 1):
            for kind, times in warm.items():
                times.append(seconds(fit, kind))
        warm = {kind: times[1:] for kind, times in warm.items()}
        ratio = median(warm["older"]) / median(warm["newer"])
        cells = f"{first['newer']:.1f} s | {first['older']:.1f} s | {ratio:.2f}"
        print(f"| {name} | {size:.2g} · 2²⁰ | {cells} |", flush=True)


def cases():
    """Fits by name, each of which returns the rows times draws times parameters of a step."""
    networks = {
        "10 inputs, 50 units": (10, {}),
        "10 inputs, 50 units, 3 classes": (10, {"classes": 3}),
        "30 inputs, 50 units": (30, {}),
        "50 inputs, 50 units": (50, {}),
        "200 inputs, 50 units": (200, {}),
        "10 inputs, 50 units twice": (10, {"hidden_layer_sizes": (50, 50)}),
        "13 inputs, 100 units, 100 draws": (
            13,
            {"hidden_layer_sizes": 100, "num_samples": 100, "prior": "paper"},
        ),
    }
    probit = {"probit, 34 weights, 100 draws": probit_fit()}
    return probit | {name: network_fit(*settings) for name, settings in networks.items()}


def probit_fit():
    inputs = jax.random.normal(jax.random.key(0), (300, 34))
    labels = np.sign(np.asarray(inputs)[:, 0])

    def log_likelihood(weights, batch):
        return bb.log_ndtr(batch[1] * (batch[0] @ weights))

    def fit():
        epochs = NUM_STEPS // 10
        key, data = jax.random.key(1), (inputs, labels)
        start = np.zeros(34, np.float32)
        bb.fit(log_likelihood, start, data, key=key, optimizer="adam", num_epochs=epochs)
        return 32 * 100 * start.size

    return fit


def network_fit(num_inputs, settings, num_rows=640):
    classes = settings.get("classes")
    settings = {name: value for name, value in settings.items() if name != "classes"}
    generator = np.random.default_rng(0)
    inputs = generator.normal(size=(num_rows, num_inputs))
    targets = inputs[:, 0] + generator.normal(size=num_rows)
    kind = bb.BBAlphaRegressor
    if classes:
        kind, targets = bb.BBAlphaClassifier, np.digitize(targets, (-0.5, 0.5))
    model = kind(max_epochs=NUM_STEPS // (num_rows // 32), random_state=0, **settings)
    return lambda: model.fit(inputs, targets).posterior_.layout.size * 32 * model.num_samples


def seconds(fit, kind):
    """Processor seconds of a fit whose steps are compiled in this way."""
    fitting.steps_for = lambda *_: KINDS[kind]
    started = time.process_time()
    fit()
    return time.process_time() - started


if __name__ == "__main__":
    main()
