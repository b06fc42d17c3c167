"""The picture of the README, docs/images/alpha.png: the left part of demo.py's. Keys are fixed."""

from pathlib import Path

import pictures
from demo import ALPHAS, fit_curve
from sklearn.datasets import load_diabetes

PATH = Path(__file__).parents[1] / "docs" / "images" / "alpha.png"

diabetes = load_diabetes(scaled=False)
mass_index = diabetes.data[:, [diabetes.feature_names.index("bmi")]]
curves = [fit_curve(alpha, mass_index, diabetes.target, num_epochs=300) for alpha in ALPHAS]
figure = pictures.diabetes(mass_index, diabetes.target, ALPHAS, curves)
figure.savefig(PATH, dpi=110, pil_kwargs={"optimize": True})
print(f"The picture is in {PATH}")
