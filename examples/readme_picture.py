"""The picture of the README, docs/images/alpha.png: the left part of demo.py's. Keys are fixed."""

import io
from pathlib import Path

import pictures
from demo import ALPHAS, fit_curve
from PIL import Image
from sklearn.datasets import load_diabetes

PATH = Path(__file__).parents[1] / "docs" / "images" / "alpha.png"

diabetes = load_diabetes(scaled=False)
mass_index = diabetes.data[:, [diabetes.feature_names.index("bmi")]]
curves = [fit_curve(alpha, mass_index, diabetes.target, num_epochs=300) for alpha in ALPHAS]
png = io.BytesIO()
pictures.diabetes(mass_index, diabetes.target, ALPHAS, curves).savefig(png, dpi=110)
Image.open(png).convert("RGB").quantize(128).save(PATH, optimize=True)  # half the bytes
print(f"The picture is in {PATH}")
