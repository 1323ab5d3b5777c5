"""An untrusted file may take control of the child that parses it: its answers must not run code here."""

import io
import pickle
from pathlib import Path

import numpy as np
import polars
import pytest

from polarised._io.limits import _Answer


class Hostile:
    def __reduce__(self):
        return Path.write_text, (Path("planted"), "here")


@pytest.mark.parametrize("answer", [Hostile(), ("done", Hostile()), {"a": print}, np.save, polars.read_csv])
def test_an_answer_that_names_code_is_refused(answer, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pickle.UnpicklingError, match="cannot hold"):
        _Answer(io.BytesIO(pickle.dumps(answer, protocol=5))).load()
    assert not list(tmp_path.iterdir())


def test_tables_arrays_and_schemas_are_returned():
    table = polars.DataFrame({"a": [1, None], "b": ["x", "y"], "c": [[1.0], []], "d": [None, None]})
    array = np.asfortranarray(np.arange(6.0).reshape(2, 3))
    answer = ("done", [table, table.schema, array, np.arange(3)[::2], np.float32(2.5), ("u1", (2, 3))])
    told, (frame, schema, back, strided, number, rest) = _Answer(io.BytesIO(pickle.dumps(answer, protocol=5))).load()
    assert (told, number, rest, strided.tolist()) == ("done", 2.5, ("u1", (2, 3)), [0, 2])
    assert frame.equals(table)
    assert schema == table.schema
    np.testing.assert_array_equal(back, array)


def test_relative_paths_refer_to_the_current_folder_of_the_caller(tmp_path, monkeypatch):
    from polarised._io.tables import read_table

    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        polars.DataFrame({"a": [name]}).write_parquet(tmp_path / name / "table.parquet")
        monkeypatch.chdir(tmp_path / name)
        assert read_table(Path("table.parquet"), columns={})["a"].to_list() == [name]
