"""The experiments of the BB-α paper, rerun with bbalpha and compared with the published numbers."""
