"""Models saved as pickles: only arrays and tables are read, and no name in them is called."""

import os
import pickle
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from polarised.adapters.scvi import _read_saved
from polarised.errors import DataError

SAVED = {"attr_dict": {"registry_": {}}, "model_state_dict": {"w": torch.ones(3)}, "var_names": np.array(["a"], "O")}


class Acting:
    """Makes a file when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def members(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {each.filename: archive.read(each) for each in archive.infolist()}


def test_arrays_and_plain_containers_are_read(tmp_path: Path) -> None:
    torch.save(SAVED, tmp_path / "model.pt")
    found = _read_saved(tmp_path / "model.pt")
    assert found["model_state_dict"]["w"].tolist() == [1.0, 1.0, 1.0]
    assert list(found["var_names"]) == ["a"]


def test_code_next_to_a_harmless_description_is_not_run(tmp_path: Path) -> None:
    torch.save(SAVED, tmp_path / "sound.pt")
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
        for name, content in members(tmp_path / "sound.pt").items():
            # A search for a name with this ending finds the harmless one first, torch finds the other.
            if name.endswith("/data.pkl"):
                archive.writestr(name.replace("data.pkl", "x_data.pkl"), content)
                content = pickle.dumps({"model_state_dict": Acting(tmp_path / "was_here")}, 2)
            archive.writestr(name, content)
    with pytest.raises(DataError, match=r"arrays and tables .* it names posix\.mkdir; refused"):
        _read_saved(tmp_path / "model.pt")
    assert not (tmp_path / "was_here").exists()


def test_a_file_of_two_formats_is_not_run(tmp_path: Path) -> None:
    torch.save(SAVED, tmp_path / "sound.pt")
    # The old format of torch, before archives: a few pickles one after another.
    about = {"protocol_version": 1001, "little_endian": True, "type_sizes": {}}
    old = [pickle.dumps(each, 2) for each in (0x1950A86A20F9469CFC6C, 1001, about, Acting(tmp_path / "was_here"))]
    (tmp_path / "model.pt").write_bytes(b"".join(old) + (tmp_path / "sound.pt").read_bytes())
    with pytest.raises(DataError, match="its format is too old"):
        _read_saved(tmp_path / "model.pt")
    assert not (tmp_path / "was_here").exists()


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("pandas.core.frame", "com.builtins.eval"),
        ("pandas.core.frame", "sys"),
        ("numpy", "load"),
        ("builtins", "getattr"),
    ],
)
def test_imports_of_allowed_modules_are_not_reachable(tmp_path: Path, module: str, name: str) -> None:
    texts = b"".join(b"\x8c" + bytes([len(text)]) + text.encode() for text in (module, name))
    torch.save(SAVED, tmp_path / "sound.pt")
    with zipfile.ZipFile(tmp_path / "model.pt", "w") as archive:
        for place, content in members(tmp_path / "sound.pt").items():
            named = b"\x80\x04" + texts + b"\x93."
            archive.writestr(place, named if place.endswith("/data.pkl") else content)
    with pytest.raises(DataError, match=rf"it names {module}\.{name}; refused"):
        _read_saved(tmp_path / "model.pt")
