"""Small files in the exact formats in which the datasets are published."""

import gzip
import io
import struct
import tarfile
import zipfile
from pathlib import Path

import numpy as np

NORB_MAGIC = {"u1": 0x1E3D4C55, "<i4": 0x1E3D4C54, "<f4": 0x1E3D4C51, "<f8": 0x1E3D4C53}
NORB_CHUNKS = ("5x46789x9x18x6x2x96x96-training", "5x01235x9x18x6x2x96x96-testing")
SHAPES_VALUES = (
    np.arange(2) / 10,
    np.arange(2) / 10,
    np.arange(2) / 10,
    np.linspace(0.75, 1.25, 2),
    np.arange(2.0),
    np.linspace(-30, 30, 3),
)
FACTORS_OF_SHAPES = (2, 2, 2, 2, 2, 3)


def norb_bytes(array: np.ndarray, kind: str) -> bytes:
    sizes = list(array.shape) + [1] * max(0, 3 - array.ndim)
    head = struct.pack("<Ii", NORB_MAGIC[kind], array.ndim) + struct.pack(f"<{len(sizes)}i", *sizes)
    return head + array.astype(kind).tobytes()


def idx_bytes(array: np.ndarray) -> bytes:
    return struct.pack(">HBB", 0, 8, array.ndim) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


def write_smallnorb(folder: Path, *, count: int = 6, compressed: bool = True) -> dict[str, np.ndarray]:
    """Write both chunks; return their combined contents."""
    generator = np.random.default_rng(0)
    place = folder / "small_norb"
    place.mkdir(parents=True)
    written: dict[str, list[np.ndarray]] = {"dat": [], "cat": [], "info": []}
    for chunk in NORB_CHUNKS:
        arrays = {
            "dat": generator.choice(np.array([0, 255], dtype=np.uint8), (count, 2, 96, 96)),
            "cat": generator.integers(0, 5, count),
            "info": np.stack(
                [
                    generator.integers(0, 10, count),
                    generator.integers(0, 9, count),
                    generator.integers(0, 18, count) * 2,
                    generator.integers(0, 6, count),
                ],
                axis=1,
            ),
        }
        for part, array in arrays.items():
            content = norb_bytes(array, "u1" if part == "dat" else "<i4")
            name = f"smallnorb-{chunk}-{part}.mat"
            if compressed:
                (place / f"{name}.gz").write_bytes(gzip.compress(content, compresslevel=1))
            else:
                (place / name).write_bytes(content)
            written[part].append(array)
    return {part: np.concatenate(arrays) for part, arrays in written.items()}


def car_bytes(number: int) -> tuple[bytes, np.ndarray]:
    from scipy.io import savemat

    pictures = np.random.default_rng(number).integers(0, 256, (1, 1, 3, 24, 4), dtype=np.uint8)
    pictures = np.ascontiguousarray(np.broadcast_to(pictures, (128, 128, 3, 24, 4)))
    buffer = io.BytesIO()
    savemat(buffer, {"im": pictures}, do_compression=True)
    return buffer.getvalue(), pictures


def write_cars_tar(path: Path, numbers: tuple[int, ...] = (2, 1)) -> dict[int, np.ndarray]:
    """Write the tar with cars in this (unsorted) order among other files."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = {}
    with tarfile.open(path, "w:gz") as archive:
        add_to_tar(archive, "data/sprites/other.mat", b"not a car")
        add_to_tar(archive, "data/cars/list.txt", b"car_001_mesh.mat")
        for number in numbers:
            content, written[number] = car_bytes(number)
            add_to_tar(archive, f"data/cars/car_{number:03d}_mesh.mat", content)
    return written


def add_to_tar(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    archive.addfile(member, io.BytesIO(content))


def write_shapes3d(path: Path) -> np.ndarray:
    import h5py

    path.parent.mkdir(parents=True, exist_ok=True)
    labels = np.stack(np.meshgrid(*SHAPES_VALUES, indexing="ij"), axis=-1).reshape(-1, 6)
    images = np.random.default_rng(0).integers(0, 256, (len(labels), 64, 64, 3), dtype=np.uint8)
    with h5py.File(path, "w") as file:
        file.create_dataset("images", data=images, chunks=(8, 64, 64, 3), compression="gzip")
        file.create_dataset("labels", data=labels)
    return images


def jpeg(colour: tuple[int, int, int], size: tuple[int, int] = (178, 218)) -> bytes:
    from PIL import Image

    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, "JPEG", quality=95)
    return buffer.getvalue()


FACES = {"000001.jpg": (255, 0, 0), "000002.jpg": (0, 255, 0), "000003.jpg": (0, 0, 255)}


def write_celeba(folder: Path, *, zipped: bool = True) -> None:
    place = folder / "celeba"
    place.mkdir(parents=True)
    if zipped:
        with zipfile.ZipFile(place / "img_align_celeba.zip", "w") as archive:
            for name, colour in reversed(FACES.items()):
                archive.writestr(f"img_align_celeba/{name}", jpeg(colour))
    else:
        (place / "img_align_celeba").mkdir()
        for name, colour in FACES.items():
            (place / "img_align_celeba" / name).write_bytes(jpeg(colour))
    lines = ["3", "Smiling Young Male", "000001.jpg -1  1  1", "000002.jpg  1  1 -1", "000003.jpg  1 -1 -1", ""]
    (place / "list_attr_celeba.txt").write_text("\n".join(lines))


def write_digits(folder: Path, name: str, *, count: int = 5, compressed: bool = True) -> tuple[np.ndarray, np.ndarray]:
    place = folder / name
    place.mkdir(parents=True)
    generator = np.random.default_rng(0)
    images = generator.integers(0, 256, (count, 28, 28), dtype=np.uint8)
    labels = generator.integers(0, 10, count, dtype=np.uint8)
    for prefix in ("train", "t10k"):
        for part, array in (("images-idx3", images), ("labels-idx1", labels)):
            file = place / f"{prefix}-{part}-ubyte"
            if compressed:
                file.with_name(file.name + ".gz").write_bytes(gzip.compress(idx_bytes(array)))
            else:
                file.write_bytes(idx_bytes(array))
    return images, labels


def write_dsprites(path: Path, indices: np.ndarray) -> None:
    """Write these images like the published .npz, including its pickled metadata, piece by piece."""
    from polarised.data import sprites

    path.parent.mkdir(parents=True, exist_ok=True)
    classes = np.concatenate([np.zeros((len(indices), 1), dtype=int), sprites.SPACE.factors(indices)], axis=1)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for name, array in (("metadata", np.array({"title": "dSprites"}, dtype=object)), ("latents_classes", classes)):
            with archive.open(f"{name}.npy", "w") as member:
                np.lib.format.write_array(member, array, allow_pickle=True)
        with archive.open("imgs.npy", "w", force_zip64=True) as member:
            about = {"descr": "|u1", "fortran_order": False, "shape": (len(indices), 64, 64)}
            np.lib.format.write_array_header_1_0(member, about)
            for start in range(0, len(indices), 8192):
                member.write(sprites.draw(indices[start : start + 8192]).tobytes())
