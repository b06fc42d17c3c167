"""The molecules of the Clean Energy Project as bits: Morgan fingerprints of 512 bits, radius 2.

A fingerprint depends on the version of RDKit only if its makers change the algorithm; ready-made
ones, packed eight bits to a byte, spare the user the library. They are kept beside the molecules.
"""

import csv
import hashlib
import http.client
import io
import urllib.request
import zipfile
from pathlib import Path

import numpy as np

from .catalog import Entry
from .folder_files import check_header, find_file, read_gzip, table_path

RADIUS = 2  # bonds, as in the paper
FINGERPRINTS = "cep_morgan512_r2.npz"
MD5 = "b6d257ff416917e4e6baa5e1103f3929"  # of cep-processed.csv as its authors keep it

_TIMEOUT = 60.0  # seconds without an answer


def read(entry: Entry, folder: Path) -> tuple[np.ndarray, np.ndarray, str]:
    """Return the bits, the efficiencies and the path of the molecules in a folder.

    Raises:
        FileNotFoundError: If `cep/cep.csv.gz` is not in the folder.
        ValueError: If it has other columns, or the fingerprints beside it are of other molecules.
        ModuleNotFoundError: If there are no fingerprints beside it, and RDKit is not installed.
    """
    path = find_file(entry, folder, table_path(entry))
    smiles, efficiency = _parse(read_gzip(path).decode(), entry, path)
    stored = path.with_name(FINGERPRINTS)
    packed = _stored_bits(stored, efficiency) if stored.is_file() else fingerprints(smiles)
    return _unpack(packed), efficiency, str(path)


def download(entry: Entry) -> tuple[np.ndarray, np.ndarray, str]:
    """Return the bits, the efficiencies and the path of the molecules, downloaded once.

    Molecules and fingerprints are kept in the folder `bbalpha` of scikit-learn's data home.

    Raises:
        ConnectionError: If the download fails.
        ValueError: If what came is not the file that the checksum was taken of.
        ModuleNotFoundError: If RDKit is not installed when the fingerprints are first needed.
    """
    from sklearn.datasets import get_data_home

    path = Path(get_data_home()) / "bbalpha" / Path(entry.url).name
    if not path.is_file() or _md5(path.read_bytes()) != MD5:
        _retrieve(entry.url, path)
    smiles, efficiency = _parse(path.read_text(), entry, path)
    stored = path.with_name(FINGERPRINTS)
    if not stored.is_file():
        packed = fingerprints(smiles)
        with _replacing(stored).open("wb") as file:
            np.savez_compressed(file, fp_packed=packed, pce=efficiency)
        _replacing(stored).replace(stored)
    return _unpack(_stored_bits(stored, efficiency)), efficiency, str(path)


def fingerprints(smiles: list[str], num_bits: int = 512) -> np.ndarray:
    """Return the Morgan fingerprint of each molecule, packed by `numpy.packbits`.

    Args:
        smiles: One molecule each.
        num_bits: Number of bits, a multiple of 8.

    Returns:
        Bytes of shape (molecules, num_bits / 8).

    Raises:
        ModuleNotFoundError: If RDKit is not installed.
        ValueError: If RDKit cannot read a molecule.
    """
    try:
        from rdkit import Chem  # pyright: ignore[reportMissingImports]
        from rdkit.Chem import (  # pyright: ignore[reportMissingImports]
            rdFingerprintGenerator,
        )
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "rdkit must be installed to compute the fingerprints of cep; got no module of that "
            f"name. Install bbalpha[chemistry], or put {FINGERPRINTS} beside cep.csv.gz.",
            name="rdkit",
        ) from error
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=num_bits)
    packed = np.empty((len(smiles), num_bits // 8), np.uint8)
    for row, text in enumerate(smiles):
        molecule = Chem.MolFromSmiles(text)
        if molecule is None:
            raise ValueError(f"smiles must be molecules; got {text!r} in row {row}.")
        packed[row] = np.packbits(generator.GetFingerprintAsNumPy(molecule))
    return packed


def _parse(text, entry, path):
    """The molecules and efficiencies of a table, in its order."""
    rows = csv.reader(io.StringIO(text))
    check_header(next(rows, []), ("smiles", entry.target_name), path)
    try:
        smiles, efficiency = zip(*rows, strict=True)
        return list(smiles), np.array(efficiency, dtype=np.float64)
    except ValueError as error:
        raise ValueError(
            f"{path} must hold a molecule and a number per row; got: {error}."
        ) from error


def _stored_bits(path, efficiency):
    """The packed fingerprints in a file, which must be of these molecules in this order."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            packed, of = stored["fp_packed"], stored["pce"]
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} must hold fp_packed and pce; got: {error}.") from error
    if not np.array_equal(of, efficiency):
        raise ValueError(
            f"{path} must hold the fingerprints of the molecules beside it, in their order; "
            f"got {len(of)} for {len(efficiency)} molecules, or other efficiencies. Delete it to "
            "compute them."
        )
    return packed


def _unpack(packed):
    """One column per bit; float32 holds 0 and 1 exactly."""
    return np.unpackbits(packed, axis=1).astype(np.float32)


def _retrieve(url, path):
    """Download a file whole, or leave no file."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:
            content = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise ConnectionError(
            f"{url} must be reachable to download cep; got: {error}. Or name a folder that holds "
            "cep/cep.csv.gz by BBALPHA_DATA."
        ) from error
    if (found := _md5(content)) != MD5:
        raise ValueError(f"{url} must have the md5 checksum {MD5}; got {found}.")
    path.parent.mkdir(parents=True, exist_ok=True)
    _replacing(path).write_bytes(content)
    _replacing(path).replace(path)


def _replacing(path):
    """Where a file is written before it takes its name, so that half a file never has it."""
    return path.with_name(path.name + ".part")


def _md5(content):
    """A checksum against accidents, which is all that the authors' users published."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()
