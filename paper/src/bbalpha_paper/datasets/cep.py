"""The molecules of the Clean Energy Project as bits: Morgan fingerprints of 512 bits, radius 2.

Fingerprints depend on the version of RDKit only if its authors change the algorithm. With
ready-made ones, packed eight bits to a byte and stored next to the molecules, RDKit is not needed.
"""

import csv
import hashlib
import http.client
import io
import urllib.request
import zipfile
from pathlib import Path

import numpy as np
import sklearn.datasets

from bbalpha.files import replacing

from .catalog import Entry
from .folder_files import check_header, find_file, read_gzip, table_path

RADIUS = 2  # bonds, as in the paper
FINGERPRINTS = "cep_morgan512_r2.npz"
# Of cep-processed.csv in its authors' repository.
SHA256 = "99c3def57a412e0ac3922194d0605b6a8a9056938706a44bc4ba1d35fe8bc8c0"

_TIMEOUT = 60.0  # seconds without an answer


def read(entry: Entry, folder: Path) -> tuple[np.ndarray, np.ndarray, str]:
    """The bits, the efficiencies and the path of the molecules in a folder.

    Raises:
        FileNotFoundError: If `cep/cep.csv.gz` is not in the folder.
        ValueError: If it has other columns, or the fingerprints belong to other molecules.
        ModuleNotFoundError: If there are no fingerprints, and RDKit is not installed.
    """
    path = find_file(entry, folder, table_path(entry))
    smiles, efficiency = _parse(read_gzip(path).decode(), entry, path)
    stored = path.with_name(FINGERPRINTS)
    packed = _stored_bits(stored, efficiency) if stored.is_file() else fingerprints(smiles)
    return _unpack(packed), efficiency, str(path)


def download(entry: Entry) -> tuple[np.ndarray, np.ndarray, str]:
    """The bits, the efficiencies and the path of the molecules, downloaded once.

    Molecules and fingerprints are kept in the folder `bbalpha` of scikit-learn's data home.

    Raises:
        ConnectionError: If the download fails.
        ValueError: If the downloaded file has another checksum.
        ModuleNotFoundError: If RDKit is not installed when the fingerprints are first needed.
    """
    path = Path(sklearn.datasets.get_data_home()) / "bbalpha" / Path(entry.url).name
    if not path.is_file() or _sha256(path.read_bytes()) != SHA256:
        _retrieve(entry.url, path)
    smiles, efficiency = _parse(path.read_text(), entry, path)
    stored = path.with_name(FINGERPRINTS)
    if not stored.is_file():
        packed = fingerprints(smiles)
        with replacing(stored) as temporary:
            np.savez_compressed(temporary, fp_packed=packed, pce=efficiency)
    return _unpack(_stored_bits(stored, efficiency)), efficiency, str(path)


def fingerprints(smiles: list[str], num_bits: int = 512) -> np.ndarray:
    """The Morgan fingerprint of each molecule, packed by `numpy.packbits`.

    Args:
        smiles: The molecules, as SMILES.
        num_bits: Number of bits, a multiple of 8.

    Returns:
        Bytes of shape (molecules, num_bits / 8).

    Raises:
        ModuleNotFoundError: If RDKit is not installed.
        ValueError: If RDKit cannot read a molecule.
    """
    try:  # an optional dependency
        from rdkit import Chem  # pyright: ignore[reportMissingImports]
        from rdkit.Chem import (  # pyright: ignore[reportMissingImports]
            rdFingerprintGenerator,
        )
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "The fingerprints of cep need rdkit, which is not installed. Install "
            f"bbalpha-paper[chemistry], or put {FINGERPRINTS} next to cep.csv.gz.",
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


def _parse(text: str, entry: Entry, path: Path) -> tuple[list[str], np.ndarray]:
    """The molecules and efficiencies in a table, in its order."""
    rows = csv.reader(io.StringIO(text))
    check_header(next(rows, []), ("smiles", entry.target_name), path)
    try:
        smiles, efficiency = zip(*rows, strict=True)
        return list(smiles), np.array(efficiency, dtype=np.float64)
    except ValueError as error:
        raise ValueError(
            f"{path} must hold a molecule and a number in each row; got: {error}."
        ) from error


def _stored_bits(path: Path, efficiency: np.ndarray) -> np.ndarray:
    """The packed fingerprints in a file, which must belong to these molecules in this order."""
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            packed, of = stored["fp_packed"], stored["pce"]
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} must hold fp_packed and pce; got: {error}.") from error
    if not np.array_equal(of, efficiency):
        raise ValueError(
            f"{path} must hold the fingerprints of the molecules next to it, in their order; "
            f"got {len(of)} for {len(efficiency)} molecules, or other efficiencies. Delete it to "
            "compute them again."
        )
    return packed


def _unpack(packed: np.ndarray) -> np.ndarray:
    """One column per bit; float32 holds 0 and 1 exactly."""
    return np.unpackbits(packed, axis=1).astype(np.float32)


def _retrieve(url: str, path: Path) -> None:
    """Download a complete file, or leave none."""
    try:
        with urllib.request.urlopen(url, timeout=_TIMEOUT) as answer:
            content = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise ConnectionError(
            f"Could not download cep from {url}: {error}. Try again, or set BBALPHA_DATA to a "
            "folder that holds cep/cep.csv.gz."
        ) from error
    if (found := _sha256(content)) != SHA256:
        raise ValueError(f"{url} must have the SHA-256 checksum {SHA256}; got {found}.")
    path.parent.mkdir(parents=True, exist_ok=True)
    with replacing(path) as temporary:
        temporary.write_bytes(content)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
