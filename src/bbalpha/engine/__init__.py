"""The engine: how the method runs fast on devices. It knows nothing of the method built on it."""
