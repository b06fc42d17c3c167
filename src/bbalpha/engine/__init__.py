"""The engine: how the method runs fast. It knows nothing of the method, which rests on it."""
