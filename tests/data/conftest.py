from pathlib import Path

import pytest


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty data folder, and no other."""
    monkeypatch.setenv("POLARISED_DATA", str(tmp_path / "data"))
    monkeypatch.delenv("DISENTANGLEMENT_LIB_DATA", raising=False)
    (tmp_path / "data").mkdir()
    return tmp_path / "data"
