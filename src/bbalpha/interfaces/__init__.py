"""Interfaces for users of other libraries: scikit-learn estimators."""
