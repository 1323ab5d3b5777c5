import io
import pickle
import zipfile

import pytest
import torch

from polarised.adapters.published import read_state, write_state
from polarised.errors import DataError


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


@pytest.mark.parametrize("suffix", [".pt", ".safetensors"])
def test_states_are_read_and_written(tmp_path, suffix):
    state = torch.nn.Linear(3, 2).state_dict()
    path = tmp_path / f"weights{suffix}"
    if suffix == ".pt":
        torch.save({"state_dict": state}, path)
    else:
        write_state(state, path)
    found = read_state(path)
    assert all(bool((found[name] == value).all()) for name, value in state.items())


def test_hostile_weights_are_refused(tmp_path):
    (tmp_path / "a.pt").write_bytes(pickle.dumps(Bomb()))
    torch.save([1, 2], tmp_path / "b.pt")
    (tmp_path / "c.safetensors").write_bytes(b"\xff" * 64)
    torch.save({"a": torch.zeros(3), "b": "text"}, tmp_path / "d.pt")
    for name in ("a.pt", "b.pt", "c.safetensors", "d.pt", "absent.pt", "absent.safetensors"):
        with pytest.raises(DataError, match="expected"):
            read_state(tmp_path / name)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.zeros(1).expand(10**6, 10**6),
        torch.zeros(4, device="meta"),
        torch.sparse_coo_tensor(torch.zeros(1, 1, dtype=torch.int64), torch.ones(1), (10**12,), check_invariants=True),
    ],
    ids=["one number repeated", "no numbers", "sparse"],
)
def test_shapes_larger_than_what_is_stored_are_refused(tmp_path, tensor):
    torch.save({"a.weight": tensor}, tmp_path / "a.pt")
    assert (tmp_path / "a.pt").stat().st_size < 10_000
    with pytest.raises(DataError, match=r"more than are stored|refused to read"):
        read_state(tmp_path / "a.pt")


def test_weights_that_unpack_to_more_than_the_file_are_refused(tmp_path):
    plain = io.BytesIO()
    torch.save({"a.weight": torch.zeros(1000, 1000)}, plain)
    with zipfile.ZipFile(plain) as source, zipfile.ZipFile(tmp_path / "a.pt", "w", zipfile.ZIP_DEFLATED) as target:
        for member in source.namelist():
            target.writestr(member, source.read(member))
    assert (tmp_path / "a.pt").stat().st_size < 20_000
    with pytest.raises(DataError, match="would unpack to"):
        read_state(tmp_path / "a.pt")


@pytest.mark.parametrize("legacy", [False, True])
def test_a_truncated_or_inconsistent_file_is_refused(tmp_path, legacy):
    torch.save({"a.weight": torch.zeros(4, 4)}, tmp_path / "a.pt", _use_new_zipfile_serialization=not legacy)
    content = (tmp_path / "a.pt").read_bytes()
    # The number of stored elements, 16, as the pickle writes it, becomes 255.
    assert content.count(b"K\x10") == 1
    for changed in (content[: len(content) // 2], content.replace(b"K\x10", b"K\xff")):
        (tmp_path / "b.pt").write_bytes(changed)
        with pytest.raises(DataError, match="refused to read"):
            read_state(tmp_path / "b.pt")
