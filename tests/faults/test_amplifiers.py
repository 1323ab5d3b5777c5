"""Small files that unpack to much memory: each is refused with one sentence before the memory is allocated."""

import io
import json
import shutil
import struct
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np
import polars
import pytest
import torch
from typer.testing import CliRunner

import polarised as po
from polarised._io import limits, tables
from polarised._io.arrays import open_arrays
from polarised._io.readers import npz_member, tar_members
from polarised._io.tables import hdf5_array, read_table
from polarised._io.text import parse_yaml
from polarised.adapters._tensor_bundle import MAGIC, MASK_DELTA, read_tensor_bundle
from polarised.adapters.published import read_state
from polarised.adapters.scvi import keys_of_pickle
from polarised.cli import app
from polarised.errors import DataError
from polarised.metrics.evaluation import evaluate
from polarised.regime import Encodings, Evidence
from polarised.study.config import Evaluation
from polarised.study.trained import published_point

MEBI = 1 << 20


@contextmanager
def holding_at_most(mebibytes: int) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < mebibytes * MEBI
    finally:
        tracemalloc.stop()


def test_the_header_of_an_array_has_a_limited_length(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "codes.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mean.npy", b"\x93NUMPY\x02\x00" + struct.pack("<I", 64 * MEBI) + b" " * (64 * MEBI))
    with holding_at_most(8), pytest.raises(DataError, match="header of at most 10000 bytes"):
        npz_member(tmp_path / "codes.npz", "mean")


def test_a_list_of_booleans_does_not_unpack_beyond_a_row(tmp_path: Path) -> None:
    count = 9_000_000
    bits = polars.repeat(value=False, n=count, dtype=polars.Boolean, eager=True)
    polars.DataFrame({"mean": [bits], "variance": [bits]}).write_parquet(tmp_path / "codes.parquet")
    assert (tmp_path / "codes.parquet").stat().st_size < 10_000
    with holding_at_most(40), pytest.raises(DataError, match="lists of numbers of one length"):
        open_arrays(tmp_path / "codes.parquet").shape("mean")


@pytest.mark.parametrize(
    "column", [[[1.0], [1.0, 2.0]], [[], []], [["a"], ["b"]], [[None], [1.0]], [{"a": 1}, {"a": 2}]]
)
def test_lists_that_are_no_table_are_refused(tmp_path: Path, column: list[object]) -> None:
    polars.DataFrame({"mean": column}).write_parquet(tmp_path / "codes.parquet")
    with pytest.raises(DataError, match="lists of numbers of one length"):
        next(open_arrays(tmp_path / "codes.parquet").chunks(["mean"], 2, 2))


def test_nested_lists_are_read(tmp_path: Path) -> None:
    values = np.arange(24.0).reshape(2, 3, 4)
    polars.DataFrame({"mean": values.tolist()}).write_parquet(tmp_path / "codes.parquet")
    np.testing.assert_array_equal(open_arrays(tmp_path / "codes.parquet").whole("mean"), values)


def sparse(path: Path, count: int) -> None:
    """Write an array that takes no space on disk."""
    with path.open("wb") as file:
        np.lib.format.write_array_header_2_0(file, {"descr": "<f8", "fortran_order": False, "shape": (count,)})
        file.truncate(file.tell() + 8 * count)


def test_a_prior_has_at_most_the_size_of_the_posterior(tmp_path: Path) -> None:
    np.save(tmp_path / "mean.npy", np.random.default_rng(0).normal(size=(20, 4)))
    np.save(tmp_path / "variance.npy", np.full((20, 4), 0.1))
    sparse(tmp_path / "prior_mean.npy", 1 << 24)
    with holding_at_most(64), pytest.raises(DataError, match=r"prior_mean .* one number for each of the 4 variables"):
        po.diagnose(tmp_path)


def test_arrays_held_in_memory_are_charged_to_a_budget(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sparse(tmp_path / "kl.npy", 1 << 20)
    monkeypatch.setattr("polarised._io.limits.available_memory", lambda: 4 * MEBI)
    with pytest.raises(DataError, match="unpack to at most 2 MiB"):
        open_arrays(tmp_path).whole("kl")


@pytest.mark.parametrize(
    "text", ["[" * 300_000, "{" * 300_000, "- " * 300_000, "? " * 300_000, "a: [" + "b," * 300_000]
)
def test_a_config_with_too_many_levels_or_values_is_refused(text: str) -> None:
    with pytest.raises(DataError, match=r"nested more deeply|at most 200,000 values"):
        parse_yaml(text, where="config.yaml")


def test_names_that_share_a_prefix_do_not_grow_without_limit() -> None:
    length, count = 100_000, 2_000
    entries = [varint_of(0) + varint_of(length) + varint_of(0) + b"k" * length]
    entries += [varint_of(length) + varint_of(4) + varint_of(0) + struct.pack(">I", number) for number in range(count)]
    data = block(b"".join(entries))
    index = block(varint_of(0) + varint_of(1) + varint_of(4) + b"z" + varint_of(0) + varint_of(len(data) - 5))
    handles = varint_of(0) + varint_of(0) + varint_of(len(data)) + varint_of(len(index) - 5)
    footer = handles.ljust(40, b"\0") + MAGIC.to_bytes(8, "little")
    with holding_at_most(8), pytest.raises(DataError, match="names of at most 4096 bytes"):
        read_tensor_bundle({"variables.index": data + index + footer}.__getitem__)


def varint_of(number: int) -> bytes:
    parts = []
    while number >= 128:
        parts.append(number & 127 | 128)
        number >>= 7
    return bytes([*parts, number])


def block(content: bytes) -> bytes:
    """Return the block of a table: its entries, no restart points, no compression, its checksum."""
    whole = content + struct.pack("<I", 0) + b"\0"
    crc = int(google_crc32c.value(whole))
    return whole + (((crc >> 15 | crc << 17) + MASK_DELTA) & 0xFFFFFFFF).to_bytes(4, "little")


def long_name(archive: tarfile.TarFile) -> None:
    header = tarfile.TarInfo("././@LongLink")
    header.type, header.size = tarfile.GNUTYPE_LONGNAME, 64 * MEBI
    archive.addfile(header, io.BytesIO(bytes(header.size)))


def long_record(archive: tarfile.TarFile) -> None:
    header = tarfile.TarInfo("pax")
    header.type, header.size = tarfile.XHDTYPE, 64 * MEBI
    archive.addfile(header, io.BytesIO(bytes(header.size)))


@pytest.mark.parametrize("add", [long_name, long_record])
def test_the_names_in_a_tar_have_a_limited_length(tmp_path: Path, add: Callable[[tarfile.TarFile], None]) -> None:
    with tarfile.open(tmp_path / "cars.tar.gz", "w:gz", format=tarfile.GNU_FORMAT) as archive:
        add(archive)
        archive.addfile(tarfile.TarInfo("cars/a.mat"), io.BytesIO())
    assert (tmp_path / "cars.tar.gz").stat().st_size < MEBI
    with holding_at_most(16), pytest.raises(DataError, match="header of more than 1024 KiB"):
        list(tar_members(tmp_path / "cars.tar.gz", ".mat"))


@pytest.mark.parametrize(
    "pickled", [b"\x80\x02" + b"}" * (4 * MEBI), b"\x80\x02}r" + struct.pack("<I", 1 << 24) + b"."]
)
def test_a_pickle_that_requests_much_memory_is_refused(tmp_path: Path, pickled: bytes) -> None:
    with zipfile.ZipFile(tmp_path / "model.pt", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data.pkl", pickled)
    with holding_at_most(8):
        assert keys_of_pickle(tmp_path / "model.pt") == set()


def test_a_third_party_hdf5_filter_is_not_loaded(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "codes.h5", "w") as file:
        made = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        made.set_chunk((4,))
        # The number of a missing plug-in; as an optional filter, the file can be written without it.
        made.set_filter(32015, h5py.h5z.FLAG_OPTIONAL, ())
        space = h5py.h5s.create_simple((4,))
        array = h5py.h5d.create(file.id, b"images", h5py.h5t.NATIVE_DOUBLE, space, made)
        array.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ones(4))
    with pytest.raises(DataError, match="packed by the filter 32015"):
        hdf5_array(tmp_path / "codes.h5", "images")


def test_more_variables_than_memory_holds_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polarised.regime.evidence.available_memory", lambda: 50_000_000)
    with pytest.raises(DataError, match="at most 1,000 variables in the available memory, got 2,000"):
        Evidence().update(np.zeros((4, 2000)), variance=np.ones((4, 2000)))


def test_more_variables_than_can_be_compared_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polarised.metrics.evaluation.available_memory", lambda: 6_400)
    with pytest.raises(DataError, match="at most 10 variables to compare"):
        evaluate(Encodings(np.zeros((4, 20)), variance=np.ones((4, 20))), metrics="effective_rank")


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan, 1e300, 2.0**60])
def test_factors_that_are_no_classes_are_refused(value: float) -> None:
    with pytest.raises(DataError, match="whole-number classes"):
        Encodings(np.zeros((4, 2)), variance=np.ones((4, 2)), factors=np.full((4, 1), value))


def allocate(_path: str) -> None:
    bytearray(8 << 30)


def sleep(_path: str) -> None:
    import time

    time.sleep(60)


def accept(_path: str) -> None: ...


def test_a_model_too_large_for_its_library_is_refused_in_the_child_process(tmp_path: Path) -> None:
    limits.rehearse("a model", accept, tmp_path)
    with pytest.raises(DataError, match=r"a model in .*takes more than"):
        limits.rehearse("a model", allocate, tmp_path)


def test_a_model_that_takes_its_library_too_long_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits.rehearse("a model", accept, tmp_path)
    monkeypatch.setattr(limits, "SECONDS", 0.5)
    with pytest.raises(DataError, match="longer than 1 s"):
        limits.rehearse("a model", sleep, tmp_path)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of one finished run."""
    pytest.importorskip("torch", reason="a run is trained; install polarised[train]")
    from study.workshop import study_config, write_study

    folder = tmp_path_factory.mktemp("finished")
    config = study_config(runs=1, steps=5)
    config["base"]["objective"] = {"name": "BetaVAE"}
    config["axes"] = {"strength": {"objective.beta": [2.0]}}
    arguments = ["study", "run", str(write_study(folder / "tiny.yaml", config)), "--out", str(folder / "study")]
    told = CliRunner().invoke(app, [*arguments, "--executor", "study.test_runner:here", "--quiet"])
    assert told.exit_code == 0, told.output
    return folder / "study"


@pytest.mark.parametrize("name", ["scores.parquet", "further.parquet"])
def test_strings_of_a_gigabyte_in_the_tables_of_a_run_are_refused(name: str, finished: Path, tmp_path: Path) -> None:
    study = tmp_path / "study"
    shutil.copytree(finished, study)
    (run,) = (path.parent for path in study.glob("*/config.yaml"))
    long = polars.DataFrame({"metric": ["x" * MEBI]}).select(polars.col("metric").repeat_by(1024).explode())
    sound = polars.read_parquet(run / "scores.parquet").head(1)
    sound.drop("metric").join(long, how="cross").select(sound.columns).write_parquet(run / name)
    assert (run / name).stat().st_size < MEBI
    (study / "results.parquet").unlink()
    told = CliRunner().invoke(app, ["study", "collect", str(study)], env={"COLUMNS": "400"})
    assert told.exit_code == 1
    assert told.stderr.startswith("error: expected strings of at most 64 MiB in ")
    assert (told.stderr.count("\n"), len(told.stderr) < 1000) == (1, True)
    assert name in told.stderr


def wide_factors(folder: Path, factors: np.ndarray) -> Path:
    draws = np.random.default_rng(0)
    np.savez_compressed(
        folder / "wide.npz",
        mean=draws.normal(size=(len(factors), 4)),
        variance=np.full((len(factors), 4), 0.1),
        factors=factors,
    )
    return folder / "wide.npz"


@pytest.mark.parametrize(
    "factors",
    [np.random.default_rng(1).integers(0, 2, (3000, 2000)), np.stack([np.arange(3000)] * 4, axis=1)],
    ids=["very many factors", "very many classes"],
)
def test_more_classes_than_can_be_scored_are_refused_with_one_sentence(tmp_path: Path, factors: np.ndarray) -> None:
    path = wide_factors(tmp_path, factors)
    told = CliRunner().invoke(app, ["evaluate", str(path)], env={"COLUMNS": "400"})
    assert told.exit_code == 1
    assert told.stderr.startswith("error: expected factors of at most 5,000 classes in total")
    assert told.stderr.count("\n") == 1
    # Metrics without factors are computed nevertheless.
    assert CliRunner().invoke(app, ["evaluate", str(path), "--metrics", "total_correlation"]).exit_code == 0


def test_more_variables_than_can_be_compared_in_time_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("polarised.metrics.evaluation.available_memory", lambda: 1 << 50)
    with pytest.raises(DataError, match="at most 5,848 variables to compare with each other over 2 inputs"):
        evaluate(Encodings(np.zeros((2, 6000)), variance=np.ones((2, 6000))), metrics="effective_rank")


def test_classifiers_of_many_variables_keep_no_products_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    from polarised.metrics import _logistic

    draws = np.random.default_rng(0)
    rows = _logistic.Rows(draws.normal(size=(40, 6)), np.zeros(40, dtype=np.int64), 1)
    weights = draws.uniform(size=(40, 3))
    kept = rows.weighted_squares(weights)
    monkeypatch.setattr(_logistic, "_MOST_PRODUCTS", 10)
    del rows.products
    np.testing.assert_allclose(rows.weighted_squares(weights), kept, rtol=1e-12)
    assert "products" not in vars(rows)


@pytest.mark.parametrize("shape", ["texts", "lists of texts", "lists in structures", "lists of bytes"])
def test_long_strings_count_in_every_kind_of_column(shape: str, tmp_path: Path) -> None:
    column: dict[str, polars.Expr] = {
        "texts": polars.col("text"),
        "lists of texts": polars.concat_list("text", "text"),
        "lists in structures": polars.struct(polars.concat_list("text")),
        "lists of bytes": polars.concat_list(polars.col("text").cast(polars.Binary)),
    }
    long = polars.DataFrame({"text": ["x" * MEBI]}).select(polars.col("text").repeat_by(150).explode())
    long.select(polars.lit(0.5).alias("value"), column[shape].alias("note")).write_parquet(tmp_path / "long.parquet")
    assert (tmp_path / "long.parquet").stat().st_size < MEBI
    with holding_at_most(8), pytest.raises(DataError, match=r"strings of at most (64|7\d) MiB"):
        read_table(tmp_path / "long.parquet", columns={"value": "number"})


@pytest.mark.parametrize("lists", [False, True])
def test_strings_instead_of_arrays_are_not_decoded(
    lists: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = polars.DataFrame({"mean": ["x" * MEBI]}).select(polars.col("mean").repeat_by(1024).explode())
    (long.select(polars.concat_list("mean")) if lists else long).write_parquet(tmp_path / "codes.parquet")
    # In this process, so that only the check of the schema prevents it.
    monkeypatch.setattr(polars.LazyFrame, "collect", lambda *_, **__: pytest.fail("decoded"))
    with pytest.raises(DataError, match=r"numbers.* in the column mean of .*, got (List|String)"):
        tables._slice(str(tmp_path / "codes.parquet"), 0, 1024, ["mean"])


def holes(path: Path, header: bytes, size: int) -> Path:
    """Write a file of that length of which only the header is on the disk."""
    with path.open("wb") as file:
        file.write(header)
        file.truncate(size)
    assert limits.size_on_disk(path) < MEBI
    return path


def tensors_of_holes(path: Path, size: int) -> Path:
    header = json.dumps({"mean": {"dtype": "F32", "shape": [size // 16, 4], "data_offsets": [0, size]}}).encode()
    return holes(path, struct.pack("<Q", len(header)) + header, 8 + len(header) + size)


def test_a_sparse_file_of_weights_is_refused_before_it_is_read(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="weights are tensors; install polarised[train]")
    from polarised.adapters.published import load_disentangling_vae, read_state
    from polarised.models.vae import load_vae

    sparse_tensors = tensors_of_holes(tmp_path / "weights.safetensors", 1 << 30)
    holes(tmp_path / "model.pt", b"PK\x03\x04", 1 << 30)
    for read in (
        lambda: read_state(sparse_tensors),
        lambda: load_vae(sparse_tensors),
        lambda: read_state(tmp_path / "model.pt"),
        lambda: load_disentangling_vae(tmp_path),
    ):
        with (
            holding_at_most(8),
            pytest.raises(DataError, match=r"to unpack to at most 6[45] MiB, but it asks for 1,024 MiB"),
        ):
            read()


def test_a_sparse_checkpoint_is_refused_before_it_is_read(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="checkpoints are of training; install polarised[train]")
    import torch

    from polarised.training.history import CHECKPOINT, load_checkpoint

    tensors_of_holes(tmp_path / CHECKPOINT, 1 << 30)
    network = torch.nn.Linear(1, 1)
    with holding_at_most(8), pytest.raises(DataError, match=r"to unpack to at most 6[45] MiB, but it asks for 1,024"):
        load_checkpoint(tmp_path, {}, {"vae": network}, torch.optim.SGD(network.parameters()))


def test_sparse_arrays_are_not_read_without_limit(tmp_path: Path) -> None:
    sparse(tmp_path / "mean.npy", 1 << 30)
    tensors_of_holes(tmp_path / "codes.safetensors", 8 << 30)
    for path in (tmp_path, tmp_path / "codes.safetensors"):
        with pytest.raises(DataError, match="it unpacks to more: far more than a file of its size holds"):
            next(open_arrays(path).chunks(["mean"], 2, 2))


def test_a_sparse_tensor_is_refused(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch", reason="weights are tensors; install polarised[train]")
    from polarised.adapters.published import read_state

    place, value = torch.tensor([[0], [0]]), torch.ones(1)
    size = (1 << 20, 1 << 20)
    for name, tensor in (
        ("coo", torch.sparse_coo_tensor(place, value, size, check_invariants=True)),
        ("stride", torch.ones(1).expand(1 << 40)),
    ):
        torch.save({"mean": tensor}, tmp_path / f"{name}.pt")
        with holding_at_most(8), pytest.raises(DataError, match="has more than are stored"):
            read_state(tmp_path / f"{name}.pt")


class Made:
    """Something that a pickle makes by calling a function."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = function, arguments

    def __reduce__(self) -> Any:
        return self.call


@pytest.mark.parametrize("old", [False, True])
def test_a_pickle_of_weights_makes_no_bytes_of_any_number(tmp_path: Path, old: bool) -> None:
    torch.save({"a": Made(bytearray, 1 << 30)}, tmp_path / "a.pt", _use_new_zipfile_serialization=not old)
    with holding_at_most(20), pytest.raises(DataError, match="it names bytearray"):
        read_state(tmp_path / "a.pt")


@pytest.mark.parametrize("old", [False, True])
def test_a_pickle_of_weights_makes_no_tensors_of_any_size(tmp_path: Path, old: bool) -> None:
    for kind in (torch.Tensor, torch.FloatTensor):
        saved = {"a": Made(kind, 1 << 28)}
        torch.save(saved, tmp_path / "a.pt", _use_new_zipfile_serialization=not old)
        with pytest.raises(DataError, match=r"as weights, but it asks for 1073741824|refused to read"):
            read_state(tmp_path / "a.pt")


@pytest.mark.parametrize("old", [False, True])
def test_weights_that_share_their_numbers_are_read(tmp_path: Path, old: bool) -> None:
    shared = torch.arange(6.0)
    saved = {"a": shared, "b": shared.view(2, 3), "c": torch.nn.Parameter(shared[2:]), "d": torch.ones(2, 2).bfloat16()}
    torch.save(saved, tmp_path / "a.pt", _use_new_zipfile_serialization=not old)
    found = read_state(tmp_path / "a.pt")
    assert all(torch.equal(found[name], value) for name, value in saved.items())


@pytest.mark.filterwarnings("ignore")
def test_weights_are_plain_numbers(tmp_path: Path) -> None:
    nested = torch.nested.nested_tensor([torch.ones(2), torch.ones(3)])
    for value in (torch.quantize_per_tensor(torch.ones(4, 2), 0.1, 0, torch.qint8), nested):
        torch.save({"mean": value}, tmp_path / "a.pt")
        with pytest.raises(DataError, match="expected plain numbers as mean"):
            read_state(tmp_path / "a.pt")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("dip_vae.lambda_od", "'a'"),
        ("dip_vae.lambda_od", "[1]"),
        ("dip_vae.lambda_od", "True"),
        ("dip_vae.lambda_d_factor", "'10'"),
        ("dip_vae.lambda_d_factor", "None"),
    ],
)
def test_texts_of_a_configuration_are_not_multiplied(key: str, value: str) -> None:
    config = {"model.name": "'dip_vae_i'", "dip_vae.lambda_od": "5.0", "dip_vae.lambda_d_factor": "1000000000"}
    with holding_at_most(20), pytest.raises(DataError, match=f"expected a number as {key}"):
        published_point({**config, key: value}, Evaluation())
    with pytest.raises(DataError, match="expected a method of the study"):
        published_point({"model.name": "[1]"}, Evaluation())
