"""The experiments of the BB-α paper, rerun with bbalpha."""
