"""Ways in for people who know another library: scikit-learn's estimators."""
