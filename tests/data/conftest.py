from pathlib import Path

import pytest

from polarised.data import cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder that replaces all others."""
    monkeypatch.setenv("POLARISED_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("DISENTANGLEMENT_LIB_DATA", raising=False)
    monkeypatch.setattr(cache, "DEBIAN_FASHION", tmp_path / "no package")
    monkeypatch.setattr(cache, "NODE_FOLDERS", ())
    monkeypatch.delenv("NODE_PATH", raising=False)
    (tmp_path / "data").mkdir()
    return tmp_path / "data"
