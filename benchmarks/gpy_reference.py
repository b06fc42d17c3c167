"""Write tests/problems/gpy.json: EP for Gaussian-process classification by GPy.

`python benchmarks/gpy_reference.py`, in an environment of its own with `pip install GPy==1.15.0`,
which is not a dependency. Nothing of bbalpha is used. The tests compare `bb.power_ep` with it.
"""

import json
from pathlib import Path

import GPy
import numpy as np

NUM_DATA = 30
VARIANCE, LENGTHSCALE = 2.0, 0.3
JITTER = 1e-6  # on the diagonal of the kernel matrix, in GPy and in the tests
FILE = Path(__file__).parents[1] / "tests" / "problems" / "gpy.json"


def main():
    random = np.random.default_rng(0)
    places = np.sort(random.uniform(size=NUM_DATA))
    labels = (np.sin(8 * places) + 0.5 * random.normal(size=NUM_DATA) > 0).astype(float)
    kernel = GPy.kern.RBF(1, variance=VARIANCE, lengthscale=LENGTHSCALE) + GPy.kern.White(1, JITTER)
    inference = GPy.inference.latent_function_inference.EP(epsilon=1e-12, max_iters=1000)
    likelihood = GPy.likelihoods.Bernoulli(GPy.likelihoods.link_functions.Probit())
    model = GPy.core.GP(places[:, None], labels[:, None], kernel, likelihood, None, inference)
    posterior = model.posterior
    found = {
        "command": "python benchmarks/gpy_reference.py",
        "versions": {"GPy": GPy.__version__, "numpy": np.__version__},
        "places": places.tolist(),
        "labels": labels.tolist(),
        "variance": VARIANCE,
        "lengthscale": LENGTHSCALE,
        "jitter": JITTER,
        "mean": posterior.mean[:, 0].tolist(),
        "deviation": np.sqrt(np.diag(np.squeeze(posterior.covariance))).tolist(),
        "log_evidence": float(np.squeeze(model.log_likelihood())),
    }
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    print(FILE, found["log_evidence"])


if __name__ == "__main__":
    main()
