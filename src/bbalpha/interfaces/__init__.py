"""Interfaces to other libraries: scikit-learn estimators, NumPyro, ArviZ and MLflow."""
