"""Tables: from a file of rows to arrays of numbers, and from predictions back to a file.

`read_table` reads a file, `Encoder` turns its columns into features, `Target` encodes the column to
predict, and `write_table` writes a table. All of them raise `TableError`, with a one-sentence
message, when a file or a stored encoding is invalid.

The modules need pandas and pyarrow, which the extra `cli` installs, but not jax. The names are
listed in `__init__.pyi`. Each is loaded when it is first used, so that `messages` needs neither.
"""

from contextlib import suppress

with suppress(ModuleNotFoundError):  # `bbalpha.predictor` needs only NumPy
    import lazy_loader

    __getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
