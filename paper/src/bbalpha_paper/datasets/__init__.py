"""Data sets of the paper by name, from a local folder or from OpenML.

`load("boston")` gives arrays in the same form wherever they come from, and `splits` the rows to
train and test on. `CATALOG` describes all sets without loading anything. No data are shipped: they
are read from the folder named by the environment variable BBALPHA_DATA, if it is set, and
otherwise downloaded once into scikit-learn's data home.

The folder holds one folder per set: `<name>/<name>.csv.gz`, a compressed table with a header and
the target in the last column. Two sets differ: `mnist/` holds the four compressed idx files, and
`cep/` may hold ready-made fingerprints next to its table of molecules.

The public names are in `__init__.pyi`; each is loaded when it is first used.
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
