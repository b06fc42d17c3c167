"""The experiments of the BB-α paper, rerun with bbalpha and set beside the published numbers."""
