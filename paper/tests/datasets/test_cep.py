"""Molecules of the Clean Energy Project: fingerprints from a folder, a download or RDKit."""

import dataclasses
import hashlib
import os
import sys
from pathlib import Path

import numpy as np
import pytest

from bbalpha_paper import datasets
from bbalpha_paper.datasets import cep

SMILES = ["c1ccccc1", "CCO", "C1C=CC=C1c1ccco1", "c1ccsc1"]
EFFICIENCY = np.array([3.5, -1.25, 0.0, 7.0])
MOLECULES = "smiles,PCE\n" + "".join(
    f"{text},{number}\n" for text, number in zip(SMILES, EFFICIENCY, strict=True)
)


def made_up_bits(seed=3):
    return np.random.default_rng(seed).integers(2, size=(4, 512), dtype=np.uint8)


def write_fingerprints(path, bits, efficiency=EFFICIENCY):
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(path, fp_packed=np.packbits(bits, axis=1), pce=efficiency)


@pytest.fixture
def server(smaller, monkeypatch, tmp_path, write_text):
    """Serves the molecules from a file, with their checksum."""
    path = tmp_path / "server" / "cep-processed.csv"
    path.parent.mkdir()
    path.write_text(MOLECULES)
    entry = dataclasses.replace(datasets.CATALOG["cep"], url=path.as_uri())
    monkeypatch.setitem(datasets.CATALOG, "cep", entry)
    monkeypatch.setattr(cep, "SHA256", hashlib.sha256(MOLECULES.encode()).hexdigest())
    return path


@pytest.fixture
def counted_fingerprints(monkeypatch):
    """Replaces RDKit by made-up bits, and counts the calls."""
    calls = []

    def fingerprints(smiles):
        calls.append(smiles)
        return np.packbits(made_up_bits(), axis=1)

    monkeypatch.setattr(cep, "fingerprints", fingerprints)
    return calls


@pytest.mark.usefixtures("smaller")
def test_cep_in_a_folder_uses_the_fingerprints_next_to_it(tmp_path, write_text):
    path = write_text("cep", MOLECULES)
    write_fingerprints(path.with_name(cep.FINGERPRINTS), made_up_bits())
    table = datasets.load("cep", tmp_path)
    np.testing.assert_array_equal(table.inputs, made_up_bits())
    np.testing.assert_array_equal(table.targets, EFFICIENCY)
    assert table.inputs.dtype == np.float32
    assert table.target_name == "PCE"
    assert table.source == str(path)


@pytest.mark.usefixtures("smaller")
def test_fingerprints_of_other_molecules_are_refused(tmp_path, write_text):
    path = write_text("cep", MOLECULES)
    stored = path.with_name(cep.FINGERPRINTS)
    write_fingerprints(stored, made_up_bits(), EFFICIENCY[::-1])
    with pytest.raises(
        ValueError, match=r"r2\.npz must hold the fingerprints of the molecules nex"
    ):
        datasets.load("cep", tmp_path)
    np.savez_compressed(stored, bits=made_up_bits())
    with pytest.raises(ValueError, match=r"r2\.npz must hold fp_packed and pce; got: .*fp_packed"):
        datasets.load("cep", tmp_path)
    np.savez_compressed(stored, fp_packed=np.array([None]), pce=EFFICIENCY)
    with pytest.raises(ValueError, match=r"must hold fp_packed and pce; got: .*allow_pickle=False"):
        datasets.load("cep", tmp_path)
    stored.write_bytes(b"PK\x03\x04 but nothing else")
    with pytest.raises(ValueError, match=r"r2\.npz must hold fp_packed and pce; got: "):
        datasets.load("cep", tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("smiles,HOMO\nCCO,1\n", r"got 'HOMO' instead of 'PCE' for column 2"),
        ("smiles,PCE\nCCO,1\nCC\n", r"must hold a molecule and a number in each row; got: "),
        ("smiles,PCE\nCCO,high\n", r"must hold a molecule and a number in each row; got: .*'high'"),
        ("smiles,PCE\n", r"must hold a molecule and a number in each row; got: "),
        ("", r"must have 2 columns, the target last; got 0"),
    ],
)
def test_a_table_that_is_not_of_molecules_is_refused(text, message, tmp_path, write_text):
    write_text("cep", text)
    with pytest.raises(ValueError, match=message):
        datasets.load("cep", tmp_path)


def test_cep_is_downloaded_and_its_fingerprints_computed_once(server, counted_fingerprints):
    first = datasets.load("cep")
    assert counted_fingerprints == [SMILES]
    np.testing.assert_array_equal(first.inputs, made_up_bits())
    np.testing.assert_array_equal(first.targets, EFFICIENCY)
    assert Path(first.source).read_text() == MOLECULES
    server.unlink()
    again = datasets.load("cep")
    assert len(counted_fingerprints) == 1
    np.testing.assert_array_equal(again.inputs, first.inputs)
    assert sorted(path.name for path in Path(first.source).parent.iterdir()) == [
        "cep-processed.csv",
        cep.FINGERPRINTS,
    ]


@pytest.mark.usefixtures("counted_fingerprints")
def test_a_damaged_download_is_neither_used_nor_kept(server, write_text):
    kept = Path(datasets.load("cep").source)
    kept.write_text(MOLECULES[:-5])
    assert datasets.load("cep").targets.shape == (4,)
    assert kept.read_text() == MOLECULES
    kept.unlink()
    server.write_text(MOLECULES.upper())
    with pytest.raises(
        ValueError, match=rf"cep-processed\.csv must have the SHA-256 checksum {cep.SHA256}"
    ):
        datasets.load("cep")
    assert not kept.exists()
    server.unlink()
    with pytest.raises(
        ConnectionError, match=r"Could not download cep from file:.*: .*No such file"
    ):
        datasets.load("cep")


def test_cep_without_rdkit_says_what_to_install(server, monkeypatch):
    monkeypatch.setitem(sys.modules, "rdkit", None)
    message = (
        r"The fingerprints of cep need rdkit, .*Install bbalpha-paper\[chemistry\], or put cep_mo"
    )
    with pytest.raises(ModuleNotFoundError, match=message):
        datasets.load("cep")
    assert not list(Path(os.environ["SCIKIT_LEARN_DATA"]).rglob("*.npz*"))


def test_fingerprints_are_of_the_molecule_and_not_of_its_spelling():
    pytest.importorskip("rdkit")
    packed = cep.fingerprints(["c1ccoc1", "C1=COC=C1", "c1ccsc1"])
    assert packed.shape == (3, 64)
    assert (packed[0] == packed[1]).all()
    assert (packed[0] != packed[2]).any()
    with pytest.raises(ValueError, match=r"smiles must be molecules; got 'not one' in row 1\."):
        cep.fingerprints(["CCO", "not one"])
