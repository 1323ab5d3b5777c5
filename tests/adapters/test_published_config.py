import json

import pytest

from polarised._io.files import Folder
from polarised.adapters.published import dataset_named, literal, read_config
from polarised.errors import DataError


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"{", "expected JSON"), (b"[" * 100_000, "expected JSON"), (b"\xff", "expected JSON"), (b"[]", "got list")],
)
def test_a_file_that_is_no_configuration_is_refused_and_names_no_data(tmp_path, content, message):
    (tmp_path / "specs.json").write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_config(Folder(tmp_path), ["specs.json"])
    assert dataset_named(Folder(tmp_path), ["specs.json"], "dataset") is None


def test_a_configuration_of_gigabytes_is_not_read(tmp_path):
    (tmp_path / "specs.json").write_bytes(b" " * (2 << 20))
    with pytest.raises(DataError, match="at most 1 MiB"):
        read_config(Folder(tmp_path), ["specs.json"])


@pytest.mark.parametrize(
    ("value", "named"), [("'dsprites_full'", "dsprites_full"), ("mnist", "mnist"), (3, None), ("8.0", None)]
)
def test_the_dataset_is_named_plainly_or_as_gin_does(tmp_path, value, named):
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "a.json").write_text(json.dumps({"dataset.name": value}))
    assert dataset_named(Folder(tmp_path), ["b.json", "model/a.json"], "dataset.name") == named


@pytest.mark.parametrize("text", ["(" * 9000, "-" * 9000 + "1", "'" * 20_000, "__import__('os')", "9**9**9", "\0"])
def test_hostile_literals_stay_text(text):
    assert literal(text) == text
