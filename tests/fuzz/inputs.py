"""Inputs of every kind of file that the program opens: well formed, with damaged structure, and with damaged bytes.

A kind is a function of a random generator and an empty folder; it writes an input and returns what to do with it:
command lines, or calls. The same seed and number give the same input.
"""

import gzip
import io
import json
import shutil
import struct
import zipfile
import zlib
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import polars
import torch
import yaml
from safetensors import safe_open

from polarised._io import readers

Rng = np.random.Generator
Action = list[str] | Callable[[], Any]

NAMES = ("mean", "mu", "variance", "logvar", "std", "sigma", "prior_mean", "prior_variance", "factors", "factor_names")
NAMES += ("kl", "repeats", "images", "labels", "weird name", "../evil", "mean_0")
DTYPES = ("<f4", "<f8", "<f2", ">f8", "<i8", "<u1", "|b1", "<U5", "|S3", "<c16", "<M8[s]", "|V4", "<f4,<i4", "<U0")
SHAPES = ((20, 3), (20,), (), (0,), (0, 3), (20, 0), (20, 3, 2, 2), (1, 3), (19, 3), (20, 1), (2**62, 0), (10**9, 3))


def pick(rng: Rng, options: Any) -> Any:
    return options[int(rng.integers(len(options)))]


def numbers(rng: Rng, shape: tuple[int, ...]) -> Any:
    values = rng.normal(size=shape) * pick(rng, (1.0, 1.0, 1.0, 1.0, 3.0, 1e-300, 1e300, 0.0, 100.0))
    if rng.random() < 0.3:
        values = np.abs(values)
    if values.size and rng.random() < 0.15:
        values.flat[int(rng.integers(values.size))] = pick(rng, (np.nan, np.inf, -np.inf, 0.0, -1.0))
    return values


def spoilt(rng: Rng, data: bytes) -> bytes:
    """Damage bytes: flips, cuts, repeats, zeros, and large numbers in place of sizes."""
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        if not changed:
            break
        at, kind = int(rng.integers(len(changed))), int(rng.integers(6))
        if kind == 0:
            changed[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del changed[at:]
        elif kind == 2:
            changed[at : at + 4] = pick(rng, (b"\xff\xff\xff\xff", b"\x00\x00\x00\x00", b"\xff\xff\xff\x7f"))
        elif kind == 3:
            changed[at:at] = changed[at : at + int(rng.integers(1, 64))]
        elif kind == 4:
            changed[at : at + int(rng.integers(1, 64))] = bytes(int(rng.integers(0, 64)))
        else:
            changed[at : at + 8] = struct.pack("<Q", int(rng.integers(2**63)))
    return bytes(changed)


def maybe_spoil(rng: Rng, path: Path, share: float = 0.5) -> None:
    if path.is_file() and rng.random() < share:
        path.write_bytes(spoilt(rng, path.read_bytes()))


def npy_bytes(rng: Rng, shape: tuple[int, ...] = (20, 3), *, lies: bool = True) -> bytes:
    if not lies or rng.random() < 0.5:
        file = io.BytesIO()
        values = numbers(rng, shape)
        np.save(file, np.asfortranarray(values) if rng.random() < 0.2 else values)
        return file.getvalue()
    about = {"descr": pick(rng, DTYPES), "fortran_order": bool(rng.random() < 0.3), "shape": pick(rng, SHAPES)}
    header = repr(about)
    if rng.random() < 0.2:
        header = pick(
            rng, ("{", "{'descr': '<f8'}", "None", "{'descr': '<f8', 'fortran_order': 1, 'shape': (-3, 2)}", "[" * 60)
        )
    text = header.encode() + b" " * 20 + b"\n"
    version = pick(rng, (b"\x01\x00", b"\x01\x00", b"\x02\x00", b"\x03\x00", b"\x09\x00"))
    length = struct.pack("<H" if version[0] == 1 else "<I", len(text) if rng.random() < 0.9 else 60_000)
    size = int(pick(rng, (0, 60, 480, 960, 1000)))
    return b"\x93NUMPY" + version + length + text + rng.bytes(size)


def encodings(rng: Rng) -> dict[str, bytes]:
    """Named arrays, mostly a mean and a matching scale."""
    arrays: dict[str, bytes] = {}
    n, d = int(pick(rng, (20, 20, 1, 2, 200))), int(pick(rng, (3, 3, 1, 8)))
    plain = rng.random() < 0.7
    for name in (pick(rng, NAMES[:2]), "variance" if plain else pick(rng, NAMES[2:6])):
        file = io.BytesIO()
        np.save(file, rng.uniform(0.01, 2.0, size=(n, d)) if plain else numbers(rng, (n, d)))
        arrays[name] = file.getvalue()
    if rng.random() < 0.3:
        file = io.BytesIO()
        np.save(file, rng.integers(0, int(pick(rng, (1, 3, 100))), size=(n, 2)))
        arrays["factors"] = file.getvalue()
    for _ in range(int(pick(rng, (0, 0, 1, 2)))):
        shape = pick(rng, ((n, d), (d,), (n,), (), (n, 2), (0,)))
        arrays[pick(rng, NAMES)] = npy_bytes(rng, shape)
    return arrays


def npz(rng: Rng, home: Path) -> list[Action]:
    path = home / "codes.npz"
    with zipfile.ZipFile(path, "w", pick(rng, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as archive:
        for name, data in encodings(rng).items():
            archive.writestr(f"{name}.npy", data)
        if rng.random() < 0.1:
            # A small file that unpacks to much.
            bomb = io.BytesIO()
            name = pick(rng, ("factor_names", "prior_mean", "kl", "mean", "factors"))
            kind = "U10" if name == "factor_names" else "f8"
            shape = pick(rng, ((1_500_000,), (1_000_000, 3)))
            np.save(bomb, np.zeros(shape, dtype=kind))
            with archive.open(f"{name}.npy", "w") as member:
                member.write(bomb.getvalue())
    maybe_spoil(rng, path, 0.3)
    commands = (
        ["diagnose", str(path)],
        ["evaluate", str(path), "--metrics", pick(rng, ("all", "total_correlation", "mig,dci"))],
        ["report", str(path)],
    )
    return [[*pick(rng, commands), *pick(rng, ((), (), ("--second", "std")))]]


def npy(rng: Rng, home: Path) -> list[Action]:
    for name in ("x_mean", pick(rng, ("x_variance", "x_variance", "x_logvar", "x_std"))):
        path = home / f"{name}.npy"
        if rng.random() < 0.6:
            np.save(path, rng.uniform(0.01, 2.0, size=(20, 3)))
        else:
            path.write_bytes(npy_bytes(rng, (20, 3)))
        maybe_spoil(rng, path, 0.2)
    if rng.random() < 0.1:
        np.savez(home / "x_mean", mean=np.zeros((4, 2)))
        (home / "x_mean.npz").replace(home / "x_mean.npy")
    return [["diagnose", str(pick(rng, (home, home / "x_mean.npy")))]]


def frame(rng: Rng, rows: int) -> polars.DataFrame:
    columns: dict[str, Any] = {}
    for prefix in ("mean", "variance"):
        for i in range(2):
            columns[f"{prefix}_{i}"] = rng.uniform(0.01, 2, size=rows) if rng.random() < 0.9 else numbers(rng, (rows,))
    odd = (
        ["a"] * rows,
        [None] * rows,
        [[1.0, 2.0]] * rows,
        [[1.0], [2.0, 3.0]] * (rows // 2) + [[1.0]] * (rows % 2),
        [True] * rows,
        [b"x"] * rows,
        [{"a": 1}] * rows,
        polars.Series(range(rows)).cast(polars.Date),
        [2**63] * rows,
    )
    for _ in range(int(rng.integers(0, 3))):
        columns[pick(rng, ("mean_0", "mean", "factor_a", "factors", "variance", "kl", "é", "mean_99999999999"))] = pick(
            rng, odd
        )
    return polars.DataFrame(columns, strict=False)


def parquet(rng: Rng, home: Path) -> list[Action]:
    path = home / "codes.parquet"
    if rng.random() < 0.05:
        polars.DataFrame({"mean_0": np.zeros(5_000_000), "variance_0": np.ones(5_000_000)}).write_parquet(path)
    else:
        compression: Any = pick(rng, ("zstd", "snappy", "uncompressed", "gzip"))
        frame(rng, int(pick(rng, (0, 1, 20, 200)))).write_parquet(path, compression=compression)
    maybe_spoil(rng, path, 0.4)
    verify = ["study", "verify", str(path), "--study", "be_more_active"]
    return [pick(rng, (["diagnose", str(path)], ["diagnose", str(path)], verify))]


def csv(rng: Rng, home: Path) -> list[Action]:
    path = home / "codes.csv"
    table = frame(rng, int(pick(rng, (0, 1, 20, 200))))
    plain = table.select(
        column for column, kind in table.schema.items() if not kind.is_nested() and kind != polars.Binary
    )
    text = plain.write_csv(separator=pick(rng, (",", ",", ",", ";"))).encode()
    texts = (b"", b"\n" * 500, b"mean_0,variance_0\n1,2,3\n", b'"' * 999, b"mean_0\n" + b"1" * 6000, b"\xff\xfe" + text)
    path.write_bytes(pick(rng, texts) if rng.random() < 0.1 else text)
    maybe_spoil(rng, path, 0.4)
    return [["diagnose", str(path)]]


def tensors(rng: Rng, home: Path) -> list[Action]:
    from safetensors.torch import save_file

    path = home / "codes.safetensors"
    kinds = (torch.float32, torch.float32, torch.float64, torch.bfloat16, torch.int64, torch.float16, torch.bool)
    saved = {
        name: torch.rand((20, 3), generator=torch.Generator().manual_seed(0)).to(pick(rng, kinds)) + 0
        for name in ("mean", "variance", *([pick(rng, NAMES[6:12])] if rng.random() < 0.3 else []))
    }
    save_file(saved, path)
    if rng.random() < 0.3:
        path.write_bytes(safetensors_bytes(rng, path.read_bytes()))
    maybe_spoil(rng, path, 0.3)
    return [["diagnose", str(path)]]


def annotated(rng: Rng, home: Path) -> list[Action]:
    import h5py

    path = home / "cells.h5ad"
    with h5py.File(path, "w") as file:
        for name in ("X_scVI_qzm", pick(rng, ("X_scVI_qzv", "X_scVI_qzv", "other"))):
            shape = pick(rng, ((20, 3), (20, 3), (20, 3), (20,), (0, 3), (19, 3)))
            if rng.random() < 0.1:
                file.create_dataset(f"obsm/{name}", shape=(10**7, 50), dtype="f8", chunks=(1000, 50))
            elif rng.random() < 0.1:
                file.create_group(f"obsm/{name}")
            else:
                values = rng.uniform(0.01, 2.0, size=shape).astype(pick(rng, ("f4", "f8", "f8", "i8", "S3")))
                file.create_dataset(f"obsm/{name}", data=values)
    maybe_spoil(rng, path, 0.4)
    return [["diagnose", str(path)]]


def results(rng: Rng, home: Path) -> list[Action]:
    """A table of results with columns of any type, for checking the claims of a paper."""
    count = 24
    odd = ([None] * count, ["a"] * count, [1] * count, [float("nan")] * count, [[1]] * count, [True] * count)
    columns: dict[str, Any] = {
        "run": [f"r{i % 6}" for i in range(count)],
        "seed": [i % 3 for i in range(count)],
        "method": [pick(rng, ("beta-VAE", "DIP-VAE-II", "x")) for _ in range(count)],
        "strength": numbers(rng, (count,)),
        "dataset": ["dsprites"] * count,
        "representation": [pick(rng, ("mean", "sampled")) for _ in range(count)],
        "variables": [pick(rng, ("all", "active", "passive", "mixed")) for _ in range(count)],
        "metric": [pick(rng, ("total_correlation", "mutual_information", "count", "accuracy")) for _ in range(count)],
        "value": numbers(rng, (count,)),
    }
    for _ in range(int(rng.integers(0, 3))):
        columns[pick(rng, (*columns, "other"))] = pick(rng, odd)
    if rng.random() < 0.2:
        columns.pop(pick(rng, tuple(columns)))
    path = home / "results.parquet"
    polars.DataFrame(columns, strict=False).write_parquet(path)
    maybe_spoil(rng, path, 0.2)
    study = pick(rng, ("be_more_active", "learning_dynamics", "rtc_vae", "polarised_ivae", "decomposition_clustering"))
    return [["study", "verify", str(path), "--study", study]]


CONFIG: dict[str, Any] = {
    "dataset": {"name": "dsprites", "size": 32},
    "model": {"architecture": {"name": "mlp", "widths": [8]}, "latents": 3, "prior": "StandardNormal"},
    "objective": {"name": "BetaVAE", "beta": 2.0},
    "training": {"steps": 6, "batch_size": 8, "checkpoint_every": 3, "log_every": 2},
    "snapshots": {"every": 2, "examples": 20},
    "evaluation": {"examples": 60, "downstream": True, "downstream_strengths": [1.0]},
    "seed": 0,
}
ODD: tuple[Any, ...] = (
    None,
    -1,
    0,
    10**6,
    10**30,
    1e308,
    "",
    "x" * 3000,
    [],
    {},
    [1, "a"],
    {"name": "no"},
    True,
    "NaN",
)
ODD += ({"name": 3}, "os:system", [[[]]], "../x", {"name": "mlp", "widths": [8] * 2000}, "\x1b[2J")


def changed(rng: Rng, value: Any) -> Any:
    """Insert an unusual value into plain data, remove one, or leave the data unchanged."""
    value = json.loads(json.dumps(value))
    for _ in range(int(rng.integers(0, 3))):
        place, path = value, []
        while isinstance(place, dict) and place and (not path or rng.random() < 0.7):
            key = pick(rng, tuple(place))
            path.append((place, key))
            place = place[key]
        if not path:
            return pick(rng, ODD)
        owner, key = path[-1]
        if rng.random() < 0.2:
            del owner[key]
        elif rng.random() < 0.1:
            owner["surprise"] = deepcopy(pick(rng, ODD))
        else:
            owner[key] = deepcopy(pick(rng, ODD))
    return value


BOMBS = (
    "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
    + "".join(f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 10)}]\n" for i in range(9)),
    "[" * 5000,
    "a: &a [*a]",
    "training: {steps: 2020-01-01}",
    "a: !!python/object/apply:os.system [ls]",
    "a: !!binary '***'",
    "a: " + "9" * 6000,
    "a: " + "1:" * 3000 + "1",
    "a: .nan",
    "? [a]: b",
    "a: {<<: [*b]}",
    "a: 0000-99-99",
    "- " * 3000,
    "\x00",
    "%YAML 9.9\n---\na",
    "a: b: c",
    "training:\n\tsteps: 1",
)


def yaml_text(rng: Rng, config: Any) -> bytes:
    if rng.random() < 0.25:
        return pick(rng, BOMBS).encode()
    text = yaml.safe_dump(changed(rng, config), sort_keys=False).encode()
    return spoilt(rng, text) if rng.random() < 0.3 else text


def yaml_study(rng: Rng, home: Path) -> list[Action]:
    from polarised.study.grid import load_study

    path = home / "study.yaml"
    study = {
        "name": "tiny",
        "base": CONFIG,
        "axes": {"seed": 2, "strength": {"objective.beta": [1, 2]}},
        "scales": {"s": {}},
    }
    path.write_bytes(yaml_text(rng, {**study, "claims": ["be_more_active"], "rule": "relative"}))
    return [lambda: load_study(path), lambda: load_study(path, scale="s", settings=["axes.seed=1"])]


def specs(rng: Rng, home: Path, corpus: Path) -> list[Action]:
    """A random specs.json, or the configuration of another library, with the weights of a valid model."""
    texts = (
        '{"a": NaN}',
        '{"a": 1e999}',
        "[" * 3000,
        '{"img_size": [1, 64, 64], "latent_dim": 10}',
        "{}",
        "[]",
        "9" * 6000,
    )
    about = {"img_size": [1, 64, 64], "latent_dim": 4, "dataset": "dsprites", "model_type": "Burgess"}
    shutil.copytree(corpus / "burgess", home, dirs_exist_ok=True)
    text = pick(rng, texts).encode() if rng.random() < 0.2 else json.dumps(changed(rng, about)).encode()
    (home / "specs.json").write_bytes(spoilt(rng, text) if rng.random() < 0.2 else text)
    if rng.random() < 0.2:
        classes = ({"_class_name": "AutoencoderKL", "latent_channels": 4}, {"name": "VAEConfig"}, {"model_name": "VAE"})
        (home / pick(rng, ("config.json", "model_config.json"))).write_text(
            json.dumps(changed(rng, pick(rng, classes)))
        )
    data = pick(rng, ((), ("--data", str(corpus / "images64.npz"))))
    return [["diagnose", str(home), "--examples", "20", *data]]


def weights(rng: Rng) -> dict[str, torch.Tensor]:
    """The layers around the latents of a custom network, mostly with matching shapes."""
    sound = {"mu.weight": (3, 4), "mu.bias": (3,), "dec.weight": (5, 3), "dec.bias": (5,), "x": (2, 2, 2, 2)}
    kept = {name: torch.ones(shape) for name, shape in sound.items()}
    if rng.random() < 0.6:
        shapes = ((3, 4), (3,), (5, 3), (5,), (0,), (), (2, 2, 2, 2))
        kinds = (torch.float32, torch.float64, torch.int64, torch.bool, torch.bfloat16)
        kept[pick(rng, (*sound, "", "encoder.conv1.weight"))] = torch.ones(pick(rng, shapes)).to(pick(rng, kinds))
    if rng.random() < 0.2:
        kept.pop(pick(rng, tuple(kept)))
    return kept


def pt(rng: Rng, home: Path, corpus: Path) -> list[Action]:
    """Weights in a .pt: of a published network of which a layer is changed, of somebody's own, or something else."""
    path = home / "model.pt"
    odd = ([1, 2], {"state_dict": 3}, {1: torch.ones(2)}, {"a": torch.ones(1).expand(10**6, 100)}, torch.ones(3))
    odd += ({"a": torch.ones(3).to_sparse()}, {"a": torch.empty(3, device="meta")}, {"state_dict": {"a": {"b": 1}}})
    published, kind = rng.random() < 0.5, rng.random()
    saved: Any = torch.load(corpus / "burgess" / "model.pt", weights_only=True) if published else weights(rng)
    if kind < 0.15:
        saved = pick(rng, odd)
    elif published and kind < 0.6:
        name = pick(rng, tuple(saved))
        value = saved[name]
        changes = (
            lambda: value.double(),
            lambda: value[:0],
            lambda: value * float("nan"),
            lambda: value.long(),
            lambda: value[None],
            lambda: value.to_sparse(),
            lambda: value * 1e30,
        )
        saved[name] = pick(rng, changes)()
        if rng.random() < 0.2:
            del saved[name]
    elif kind < 0.8:
        saved = {"state_dict": saved, "epoch": 3}
    torch.save(saved, path, _use_new_zipfile_serialization=bool(rng.random() < 0.8))
    maybe_spoil(rng, path, 0.3)
    (home / "specs.json").write_text('{"img_size": [1, 64, 64], "latent_dim": 4, "dataset": "dsprites"}')
    if published:
        return [["diagnose", str(home), "--examples", "20", "--data", str(corpus / "images64.npz")]]
    heads = ("--mean-head", "mu", "--decoder-input", "dec", "--keep", "0,1", "--out", str(home / "out.safetensors"))
    return [["prune", str(path), *heads]]


def safetensors_bytes(rng: Rng, base: bytes) -> bytes:
    """A safetensors file with its header changed: sizes, offsets, metadata and what it says of its network."""
    size = int.from_bytes(base[:8], "little")
    header, body = json.loads(base[8 : 8 + size]), base[8 + size :]
    if rng.random() < 0.6 and "__metadata__" in header:
        about = json.loads(header["__metadata__"]["polarised"])
        header["__metadata__"]["polarised"] = json.dumps(changed(rng, about))
    if rng.random() < 0.3:
        header = changed(rng, header)
    text = json.dumps(header).encode()
    length = len(text) if rng.random() < 0.9 else int(rng.integers(2**63))
    return struct.pack("<Q", length) + text + body


def safetensors(rng: Rng, home: Path, corpus: Path) -> list[Action]:
    base = next(corpus.glob("run/*/model.safetensors")).read_bytes()
    path = home / "model.safetensors"
    path.write_bytes(safetensors_bytes(rng, base))
    maybe_spoil(rng, path, 0.3)
    data = ("--data", str(corpus / "images.npz"), "--examples", "20")
    prune = ["prune", str(path), *data, "--out", str(home / "out.safetensors")]
    return [pick(rng, (["diagnose", str(path), *data], prune))]


def archive(rng: Rng, home: Path, corpus: Path) -> list[Action]:
    """A zip of a published model, with members more, less, larger or elsewhere."""
    path = home / "model.zip"
    base = corpus / pick(rng, ("burgess", "bundle"))
    members = {file.relative_to(base).as_posix(): file.read_bytes() for file in base.rglob("*") if file.is_file()}
    if rng.random() < 0.5:
        name = pick(rng, (*members, *members, "../evil", "/etc/x", "a\nb", "C:\\x", "deep/" * 30 + "x", "other.txt"))
        contents = (b"", b"{}", b'{"dataset": "dsprites"}', rng.bytes(200), bytes(30 << 20))
        members[name] = pick(rng, contents)
    if rng.random() < 0.15:
        members.pop(pick(rng, tuple(members)))
    prefix = pick(rng, ("", "", "7/", "a/b/"))
    with zipfile.ZipFile(path, "w", pick(rng, (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))) as file:
        for name, content in members.items():
            file.writestr(prefix + name if rng.random() < 0.98 else name, content)
    maybe_spoil(rng, path, 0.4)
    return [["diagnose", str(path), "--examples", "20", "--data", str(corpus / "images64.npz")]]


def hdf5(rng: Rng, home: Path) -> list[Action]:
    import h5py

    from polarised.data.published import _shapes

    path = home / "3dshapes.h5"
    with h5py.File(path, "w") as file:
        for name, shape, kind in (("images", (5, 64, 64, 3), "u1"), ("labels", (5, 6), "f8")):
            if rng.random() < 0.15:
                shape = pick(rng, ((10**6, *shape[1:]), (0, *shape[1:]), (5,), (5, 1)))
            chunks = pick(rng, (None, True))
            if np.prod(shape) > 10**6 or rng.random() < 0.1:
                # Claimed, without a stored byte.
                file.create_dataset(name, shape=shape, dtype=kind, chunks=(1, *shape[1:]) if shape[0] else None)
            elif rng.random() < 0.1:
                file[name] = pick(rng, (h5py.SoftLink("/elsewhere"), h5py.ExternalLink("/etc/hostname", "x")))
            else:
                kind = pick(rng, (kind, kind, kind, "f4", "i8"))
                values = rng.integers(0, 9, size=shape).astype(kind)
                file.create_dataset(name, data=values, chunks=chunks, compression="gzip" if chunks else None)
    maybe_spoil(rng, path, 0.6)
    return [lambda: sum(len(rows) for rows in _shapes([path]).chunks)]


def tensor_bundle(rng: Rng, home: Path, corpus: Path) -> list[Action]:
    """A checkpoint of TensorFlow with the layers of a published model, some of them another size, type or place."""
    from adapters.test_tensor_bundle import bundle

    with np.load(corpus / "locatello.npz") as saved:
        arrays = {name: saved[name] for name in saved.files}
    if rng.random() < 0.4:
        name = pick(rng, tuple(arrays))
        values = arrays[name]
        others = (values[:0], values[..., :1], values[None], values * np.nan, values * 1e30, np.zeros(()))
        arrays[name] = pick(rng, others)
        if rng.random() < 0.2:
            del arrays[name]
    changes = (
        ("dtype", pick(rng, (0, 1, 7, 99))),
        ("offset", pick(rng, (0, 8, 2**40))),
        ("size", pick(rng, (0, 24, 2**50))),
    )
    changes += (("shape", pick(rng, ((2, 3), (2**39, 2**39), (0, 5), ()))),)
    blocks = int(pick(rng, (1, 1, 1, 1, 3)))
    files = bundle(arrays, blocks=blocks, **dict([pick(rng, changes)] if rng.random() < 0.3 else []))
    folder = home / "model" / "tfhub" / "variables"
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name).write_bytes(spoilt(rng, content) if rng.random() < 0.2 else content)
    return [["diagnose", str(home), "--examples", "20", "--data", str(corpus / "images64.npz")]]


def run_folder(rng: Rng, home: Path, corpus: Path) -> list[Action]:
    """A finished run with one or two files damaged, missing or replaced."""
    base = next((corpus / "run").iterdir())
    run = home / base.name
    shutil.copytree(base, run)
    files = sorted(file for file in run.iterdir() if file.name[0] != ".")
    for _ in range(int(rng.integers(1, 3))):
        file = pick(rng, files)
        if not file.is_file():
            continue
        kind = rng.random()
        # A file that is already damaged can only be damaged further.
        if file.read_bytes() != (base / file.name).read_bytes():
            kind = 1.0
        if kind < 0.1:
            file.unlink()
        elif file.name == "config.yaml" and kind < 0.8:
            file.write_bytes(yaml_text(rng, yaml.safe_load(file.read_text())))
        elif file.suffix == ".json" and kind < 0.7:
            file.write_text(json.dumps(changed(rng, json.loads(file.read_text()))))
        elif file.suffix == ".safetensors" and kind < 0.6:
            file.write_bytes(safetensors_bytes(rng, file.read_bytes()))
        elif file.suffix == ".parquet" and kind < 0.6:
            other_table(rng, polars.read_parquet(file)).write_parquet(file)
        elif file.suffix == ".npz" and kind < 0.6:
            other_arrays(rng, file)
        else:
            file.write_bytes(spoilt(rng, file.read_bytes()))
    report = ["report", str(run), "--out", str(home / "page.html")]
    evaluate = ["evaluate", str(run), "--metrics", "total_correlation"]
    return [pick(rng, (["diagnose", str(run)], report, evaluate, ["cite", str(run)]))]


def other_table(rng: Rng, table: polars.DataFrame) -> polars.DataFrame:
    name = pick(rng, table.columns)
    kind: Any = pick(rng, (polars.String, polars.Int8, polars.Null, polars.Boolean, polars.Binary, polars.Date))
    change = (
        lambda: table.drop(name),
        lambda: table.with_columns(polars.lit(None).cast(kind).alias(name)),
        lambda: table.head(0),
        lambda: polars.concat([table, table]),
        lambda: table.rename({name: "surprise"}),
        lambda: table.with_columns(polars.lit("\x1b[2J" * 50).alias(name)),
    )
    return pick(rng, change)()


def other_arrays(rng: Rng, file: Path) -> None:
    with np.load(file) as archive:
        arrays = {name: archive[name] for name in archive.files}
    name = pick(rng, tuple(arrays))
    values = arrays[name]
    change = (
        lambda: values[:0],
        lambda: values[..., :1] if values.ndim else values,
        lambda: np.zeros(3),
        lambda: values.astype("U9"),
    )
    change += (lambda: np.full_like(values, 7) if values.dtype.kind in "fiu" else values, lambda: values[None])
    arrays[name] = pick(rng, change)()
    if rng.random() < 0.2:
        del arrays[name]
    np.savez(file, **arrays)


def study_folder(rng: Rng, home: Path, corpus: Path) -> list[Action]:
    """A finished study whose list of runs or files of its runs are damaged."""
    study = home / "study"
    shutil.copytree(corpus / "study", study)
    listed = study / "study.json"
    kind = rng.random()
    if kind < 0.5:
        listed.write_text(json.dumps(changed(rng, json.loads(listed.read_text()))))
    elif kind < 0.7:
        listed.write_bytes(spoilt(rng, listed.read_bytes()))
    else:
        for run in (path for path in sorted(study.iterdir()) if path.is_dir()):
            files = sorted(file for file in run.iterdir() if file.name[0] != ".")
            file = pick(rng, files)
            if file.suffix == ".parquet" and rng.random() < 0.6:
                other_table(rng, polars.read_parquet(file)).write_parquet(file)
            elif file.suffix == ".json" and rng.random() < 0.8:
                file.write_text(json.dumps(changed(rng, json.loads(file.read_text()))))
            else:
                file.write_bytes(spoilt(rng, file.read_bytes()))
    commands = (["status"], ["status", "--json"], ["collect"], ["verify"], ["doctor"])
    name, *more = pick(rng, commands)
    return [["study", name, str(study), *more]]


CONTENTS = (
    b"%!PS-Adobe-3.0 EPSF-3.0\n",
    b"GIF89a" + bytes(40),
    b"<svg xmlns='http://www.w3.org/2000/svg'/>",
    b"%PDF-1.4\n",
    b"",
)
MODES = {
    "png": ("L", "RGB", "RGBA", "P", "1", "I;16"),
    "jpg": ("L", "RGB", "CMYK"),
    "webp": ("RGB", "RGBA"),
    "bmp": ("L", "RGB", "P", "1"),
    "tif": ("L", "RGB", "RGBA", "P", "1", "I;16", "F", "CMYK"),
}


def image_bytes(rng: Rng, ending: str) -> bytes:
    """An image of one of its format's modes; that of a PNG may claim another size, with a checksum that matches."""
    from PIL import Image

    mode, sides = pick(rng, MODES[ending]), [int(pick(rng, (1, 2, 7, 64, 65, 300))) for _ in range(2)]
    if mode == "I;16":
        image = Image.fromarray(rng.integers(0, 2**16, size=sides, dtype=np.uint16))
    else:
        image = Image.fromarray(rng.integers(0, 256, size=(*sides, 3), dtype=np.uint8)).convert(mode)
    buffer = io.BytesIO()
    image.save(buffer, {"jpg": "JPEG", "tif": "TIFF"}.get(ending, ending))
    data = buffer.getvalue()
    if ending == "png" and rng.random() < 0.3:
        header = bytearray(data[12:29])
        at = int(pick(rng, (4, 8)))
        header[at : at + 4] = struct.pack(">I", int(pick(rng, (0, 1, 9000, 60000, 2**31 - 1))))
        header[12:17] = bytes(
            int(pick(rng, (0, 1, 2, 6, 8, 16, 255))) if rng.random() < 0.2 else b for b in header[12:17]
        )
        data = data[:12] + bytes(header) + struct.pack(">I", zlib.crc32(header)) + data[33:]
    return data


def pictures(rng: Rng, home: Path) -> list[Action]:
    """A folder of images in five formats: some damaged, of a false size, or of another format than their name says."""
    from polarised.data.own import from_folder, thumbnail

    for number in range(int(rng.integers(1, 4))):
        ending = pick(rng, tuple(MODES))
        content = pick(rng, CONTENTS) if rng.random() < 0.1 else image_bytes(rng, ending)
        path = home / f"{number}.{pick(rng, tuple(MODES)) if rng.random() < 0.2 else ending}"
        path.write_bytes(content)
        maybe_spoil(rng, path, 0.25)
    size, channels = int(pick(rng, (1, 16, 64))), int(pick(rng, (1, 3)))
    return [
        lambda: from_folder(path=str(home), size=size, channels=channels).batch(0, 2, 0),  # type: ignore[arg-type]
        lambda: thumbnail(path, width=16, height=16),
    ]


def norb_bytes(rng: Rng, values: Any) -> bytes:
    """A smallNORB matrix, whose type, number of dimensions or sizes may be false."""
    magic = {"u1": 0x1E3D4C55, "i4": 0x1E3D4C54}[values.dtype.str[1:]]
    sizes = [*values.shape, *[1] * (3 - values.ndim)]
    count = values.ndim
    if rng.random() < 0.1:
        magic, count = pick(rng, ((magic, 200), (magic, -1), (magic + 1, count), (0x1E3D4C53, count), (0, 0)))
    if rng.random() < 0.1:
        sizes[int(rng.integers(len(sizes)))] = int(pick(rng, (0, -1, 1, 2**31 - 1, 10**6)))
    data = struct.pack(f"<Ii{len(sizes)}i", magic, count, *sizes) + values.tobytes()
    return spoilt(rng, data) if rng.random() < 0.1 else data


def idx_bytes(rng: Rng, values: Any) -> bytes:
    """An idx array, whose type, number of dimensions or sizes may be false."""
    kind, count, sizes = 8, values.ndim, list(values.shape)
    if rng.random() < 0.1:
        kind, count = pick(rng, ((9, count), (8, 0), (8, 255), (8, count + 1)))
    if rng.random() < 0.15:
        sizes[int(rng.integers(len(sizes)))] = int(pick(rng, (0, 1, 2**32 - 1, 10**6)))
    data = struct.pack(f">HBB{len(sizes)}I", 0, kind, count, *sizes) + values.tobytes()
    return spoilt(rng, data) if rng.random() < 0.15 else data


def dataset_files(rng: Rng, home: Path) -> list[Action]:
    """The files of a published dataset: smallNORB, MNIST, a MATLAB file of Cars3D, or CelebA, with false headers."""
    from polarised.data import published

    def decode(stream: Any) -> None:
        for _ in stream.chunks:
            pass

    which = pick(rng, ("norb", "idx", "idx", "mat", "celeba"))
    if which == "norb":
        paths = []
        for number in range(2):
            labels = np.stack([np.arange(3), np.arange(3), 2 * np.arange(3), np.arange(3)], axis=1).astype("<i4")
            images = rng.integers(0, 256, size=(3, 2, 96, 96), dtype=np.uint8)
            for name, values in (("dat", images), ("cat", labels[:, 0].copy()), ("info", labels)):
                paths.append(home / f"{number}-{name}.mat")
                paths[-1].write_bytes(norb_bytes(rng, values))
        clipped = bool(rng.random() < 0.5)
        return [lambda: decode(published._norb(paths, clipped))]
    if which == "idx":
        path = home / pick(rng, ("images-idx3-ubyte", "images-idx3-ubyte.gz"))
        content = idx_bytes(rng, rng.integers(0, 256, size=(5, 28, 28), dtype=np.uint8))
        path.write_bytes(gzip.compress(content) if path.suffix else content)
        maybe_spoil(rng, path, 0.15)
        return [lambda: readers.idx(path).whole()]
    if which == "mat":
        from scipy.io import savemat

        shape = (128, 128, 3, 24, 4) if rng.random() < 0.8 else pick(rng, SHAPES[:6])
        name, kind = pick(rng, ("im", "im", "im", "im", "image")), pick(rng, (np.uint8, np.uint8, np.uint8, np.float64))
        path = home / "car_001_mesh.mat"
        savemat(path, {name: np.zeros(shape, kind)}, do_compression=bool(rng.random() < 0.7))
        maybe_spoil(rng, path, 0.3)
        return [lambda: decode(published._cars([path]))]
    names = [f"{number:06}.jpg" for number in range(1, 4)]
    rows = [f"{name} {' '.join(str(pick(rng, (-1, 1))) for _ in range(3))}" for name in names]
    text = "\n".join([str(len(rows)), "Bald Hat Young", *rows, ""])
    (home / "list_attr_celeba.txt").write_bytes(spoilt(rng, text.encode()) if rng.random() < 0.3 else text.encode())
    with zipfile.ZipFile(home / "faces.zip", "w") as archive:
        for name in names if rng.random() < 0.8 else names[1:]:
            content = image_bytes(rng, "jpg")
            archive.writestr(f"faces/{name}", spoilt(rng, content) if rng.random() < 0.1 else content)
    maybe_spoil(rng, home / "faces.zip", 0.15)
    return [lambda: decode(published._faces([home / "faces.zip", home / "list_attr_celeba.txt"], 16, 64))]


def resume(folder: Path, steps: int) -> Any:
    """Train the network of the corpus in a folder, from its checkpoint if there is one."""
    from polarised.data import dsprites
    from polarised.models import build_vae
    from polarised.objectives import BetaVAE
    from polarised.training import train

    vae = build_vae({"architecture": {"name": "mlp", "widths": [8]}, "latents": 2}, (1, 32, 32))
    return train(vae, BetaVAE(), dsprites(size=32), steps=steps, batch_size=4, directory=folder, progress=False)


def checkpoint(rng: Rng, home: Path, corpus: Path) -> list[Action]:
    """A checkpoint with another header, other arrays under a checksum that matches, or damaged bytes."""
    from safetensors.numpy import save_file

    from polarised.training.history import CHECKPOINT, _checksum

    base, path, kind = corpus / "checkpoint" / CHECKPOINT, home / CHECKPOINT, rng.random()
    shutil.copy(base, path)
    if kind < 0.3:
        path.write_bytes(safetensors_bytes(rng, base.read_bytes()))
    elif kind < 0.8:
        with safe_open(base, framework="np") as archive:
            header = json.loads(archive.metadata()["polarised"])
            arrays = {name: archive.get_tensor(name) for name in archive.keys()}  # noqa: SIM118
        name = pick(rng, sorted(arrays))
        value = arrays.pop(name)
        others = (
            dict,
            lambda: {name: value.astype(np.float64)},
            lambda: {name: value.astype(np.int32)},
            lambda: {name: np.stack([value, value])},
            lambda: {name: np.zeros_like(value)},
            lambda: {
                name: np.full_like(value, pick(rng, (np.nan, np.inf, -1, 1e30)) if value.dtype.kind == "f" else -1)
            },
            lambda: {name: value, f"{name}.more": value},
            lambda: {name.upper(): value},
        )
        arrays |= pick(rng, others)()
        header["step"] = int(pick(rng, (header["step"], header["step"], 0, -1, 10**9, 2**63)))
        header["checksum"] = _checksum(header["step"], arrays)
        save_file(arrays, path, metadata={"polarised": json.dumps(header)})
    else:
        maybe_spoil(rng, path, 0.8)
    return [lambda: resume(home, 4)]


LINES = (
    "https://example.org/200.zip",
    "http://example.org/200.zip " + 64 * "a",
    "sha256:" + 64 * "0",
    "models/7 " + 64 * "F",
    "/absolute/model.zip",
    "../outside",
    "~unknown_user/model",
    "s3://bucket/model.zip",
    "file:///etc/passwd",
    "https://[::1",
    "zip://a.zip::https://example.org/b.zip",
    "a\x00b",
    "# remark",
    " ",
    "x" * 5000,
    "\u202e.zip",
)


def model_list(rng: Rng, home: Path) -> list[Action]:
    """A list of trained models, with paths, addresses and digests of every kind; nothing is fetched."""
    from polarised.study.config import Evaluation
    from polarised.study.trained import read_archives

    path = home / "list.txt"
    lines = [pick(rng, LINES[:6] if rng.random() < 0.7 else LINES) for _ in range(int(rng.integers(0, 5)))]
    path.write_bytes(pick(rng, ("\n", "\r\n")).join(lines).encode())
    maybe_spoil(rng, path, 0.3)
    return [lambda: read_archives(path, Evaluation())]


KINDS: dict[str, Callable[..., list[Action]]] = {
    "npz": npz,
    "npy": npy,
    "parquet": parquet,
    "results": results,
    "csv": csv,
    "tensors": tensors,
    "h5ad": annotated,
    "yaml": yaml_study,
    "json": specs,
    "pt": pt,
    "safetensors": safetensors,
    "zip": archive,
    "hdf5": hdf5,
    "tensor_bundle": tensor_bundle,
    "run_folder": run_folder,
    "study_folder": study_folder,
    "pictures": pictures,
    "dataset_files": dataset_files,
    "checkpoint": checkpoint,
    "model_list": model_list,
}


def make_corpus(home: Path) -> None:
    """Write the well-formed run, study, published models and images that some kinds start from."""
    from polarised.study.config import Run
    from polarised.study.grid import load_study
    from polarised.study.runner import enrol
    from polarised.study.stages import execute

    rng = np.random.default_rng(0)
    np.savez(home / "images.npz", images=rng.integers(0, 255, size=(40, 1, 32, 32)).astype(np.uint8))
    np.savez(home / "images64.npz", images=rng.integers(0, 255, size=(20, 1, 64, 64)).astype(np.uint8))
    make_published(home)
    resume(home / "checkpoint", 2)
    execute(Run.from_config(CONFIG), home / "run")
    file = home / "tiny.yaml"
    axes = {"seed": 2, "strength": {"objective.beta": [1.0, 2.0]}}
    claims = ["be_more_active"]
    file.write_text(yaml.safe_dump({"name": "tiny", "base": CONFIG, "axes": axes, "claims": claims}))
    study = load_study(file)
    enrol(study, home / "study")
    for run in study.runs:
        execute(run, home / "study")


def make_published(home: Path) -> None:
    """Write untrained models as disentangling-vae and disentanglement_lib publish theirs."""
    from adapters.test_tensor_bundle import bundle
    from polarised.adapters import published as names

    (home / "burgess").mkdir()
    layers = layers_of("burgess_conv", [*names._BURGESS_ENCODER, *names._BURGESS_DECODER])
    torch.save(layers, home / "burgess" / "model.pt")
    about = {"img_size": [1, 64, 64], "latent_dim": 4, "dataset": "dsprites", "model_type": "Burgess"}
    (home / "burgess" / "specs.json").write_text(json.dumps(about))
    arrays = {}
    for name, values in layers_of("locatello_conv", [*names._LOCATELLO_ENCODER, *names._LOCATELLO_DECODER]).items():
        layer, _, kind = name.rpartition(".")
        turned = values.permute(2, 3, 1, 0) if values.ndim == 4 else values.T if values.ndim == 2 else values
        arrays[f"module/{layer}/{'kernel' if kind == 'weight' else kind}"] = turned.numpy()
    np.savez(home / "locatello.npz", **arrays)
    folder = home / "bundle" / "model" / "tfhub" / "variables"
    folder.mkdir(parents=True)
    for name, content in bundle(arrays).items():
        (folder / name).write_bytes(content)


def layers_of(architecture: str, names: list[str]) -> dict[str, torch.Tensor]:
    """Return the weights of one of our networks for images of 64 pixels under the names that others give them."""
    from polarised.models import build_vae

    vae = build_vae({"architecture": architecture, "latents": 4}, (1, 64, 64))
    found = {}
    modules = [*vae.encoder.modules(), *vae.decoder.modules()]
    layers = [m for m in modules if isinstance(m, torch.nn.Linear | torch.nn.Conv2d | torch.nn.ConvTranspose2d)]
    for name, layer in zip(names, layers, strict=True):
        found |= {f"{name}.{kind}": value.detach().clone() for kind, value in layer.named_parameters()}
    return found
