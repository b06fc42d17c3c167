import importlib.metadata

import pytest

from bbalpha.interfaces.needed import check_installed


def test_a_missing_package_gets_the_command_that_installs_it():
    with pytest.raises(
        ImportError, match=r"^x needs no-such 1\.2 or newer: pip install 'bbalpha\["
    ):
        check_installed("no-such", (1, 2), "x")


@pytest.mark.parametrize("package", ["numpyro", "arviz"])
def test_an_old_package_is_refused_with_its_version(package, monkeypatch):
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.15.3")
    with pytest.raises(
        ImportError, match=rf"needs {package} 0\.22 or newer; got 0\.15\.3: pip ins"
    ):
        check_installed(package, (0, 22), "to_arviz")


def test_a_new_enough_package_passes():
    check_installed("numpyro", (0, 22), "x")
