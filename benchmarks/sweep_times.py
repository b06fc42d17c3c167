"""What it costs to let the training rows choose: `python benchmarks/sweep_times.py`.

Prints the CPU time of `BBAlphaRegressor.fit` on 500 rows of five columns, for every way to set α,
and how many times that of one fit at α = ½ this is. Each way runs in a new process: the first fit
compiles, the best of the three next ones does not. `OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1`
keeps threads that wait out of the times.
"""

import json
import subprocess
import sys
import time
import warnings

WAYS = {
    "alpha=0.5": {"alpha": 0.5},
    'alpha="tuned"': {"alpha": "tuned"},
    'alpha="stacked"': {"alpha": "stacked"},
    'alpha="stacked", calibrate=True': {"alpha": "stacked", "calibrate": True},
}
NUM_ROWS, NUM_FITS = 500, 4


def seconds(settings):
    """CPU times of several fits in this process."""
    from sklearn.datasets import make_friedman1

    import bbalpha as bb

    warnings.simplefilter("ignore")
    X, y = make_friedman1(NUM_ROWS, n_features=5, noise=1.0, random_state=0)
    found = []
    for _ in range(NUM_FITS):
        started = time.process_time()
        bb.BBAlphaRegressor(random_state=0, **settings).fit(X, y)
        found.append(time.process_time() - started)
    return found


def main():
    if len(sys.argv) > 1:
        print(json.dumps(seconds(json.loads(sys.argv[1]))))
        return
    print("| | first fit | ratio | next fits | ratio |")
    print("|---|---|---|---|---|")
    base = None
    for name, settings in WAYS.items():
        command = [sys.executable, __file__, json.dumps(settings)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        first, *others = json.loads(done.stdout)
        base = base or (first, min(others))
        print(
            f"| `{name}` | {first:.1f} s | {first / base[0]:.1f} "
            f"| {min(others):.2f} s | {min(others) / base[1]:.1f} |"
        )


if __name__ == "__main__":
    main()
