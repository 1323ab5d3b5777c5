"""Published pictures of toys, cars, rooms, faces, digits and clothes, decoded once."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from polarised._io.files import contained, refusal, refusing
from polarised._io.readers import (
    LARGEST_MEMBER,
    idx,
    mat_array,
    norb_matrix,
    read_whole,
    tar_members,
    zip_members,
)
from polarised._io.tables import hdf5_array
from polarised._io.text import read_small
from polarised.data.cache import Decoded, PictureStream, Source, as_unit_interval, decoded, find, missing
from polarised.data.dataset import Dataset, FactorSpace, check_choice, check_counts
from polarised.data.own import picture, resized
from polarised.errors import DataError
from polarised.registry import register

__all__ = ["cars3d", "celeba", "fashion_mnist", "mnist", "shapes3d", "smallnorb"]

NORB_PAGE = "https://cs.nyu.edu/~ylclab/data/norb-v1.0-small/"


NORB_CHUNKS = ("5x46789x9x18x6x2x96x96-training", "5x01235x9x18x6x2x96x96-testing")


MOST_CARS = 1000


CARS_ADDRESS = "https://www.scottreed.info/files/nips2015-analogy-data.tar.gz"


CELEBA_PAGE = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html"


SHAPES_ADDRESS = "https://storage.googleapis.com/3d-shapes/3dshapes.h5"


# MD5 of each file of smallNORB as published, and of its content, by chunk and part.
NORB_MD5 = {
    "training-dat": ("66054832f9accfe74a0f4c36a75bc0a2", "8138a0902307b32dfa0025a36dfa45ec"),
    "training-cat": ("23c8b86101fbf0904a000b43d3ed2fd9", "fd5120d3f770ad57ebe620eb61a0b633"),
    "training-info": ("51dee1210a742582ff607dfd94e332e3", "19faee774120001fc7e17980d6960451"),
    "testing-dat": ("e4ad715691ed5a3a5f138751a4ceb071", "e9920b7f7b2869a8f1a12e945b2c166c"),
    "testing-cat": ("5aa791cd7e6016cf957ce9bdb93b8603", "fd5120d3f770ad57ebe620eb61a0b633"),
    "testing-info": ("a9454f3864d7fd4bb3ea7fc3eb84924e", "7c5b871cc69dcadec1bf6a18141f5edc"),
}


def _norb_source(chunk: str, part: str) -> Source:
    name = f"smallnorb-{chunk}-{part}.mat.gz"
    published, held = NORB_MD5[f"{chunk.rpartition('-')[2]}-{part}"]
    return Source(f"small_norb/{name}", (f"{NORB_PAGE}{name}",), NORB_PAGE, md5=published, content=f"md5:{held}")


NORB_FILES = tuple(_norb_source(chunk, part) for chunk in NORB_CHUNKS for part in ("dat", "cat", "info"))


CARS_FILE = Source(
    "cars/nips2015-analogy-data.tar.gz",
    # Published without https; an https address is tried first, and the digest verifies the file.
    (CARS_ADDRESS, CARS_ADDRESS.replace("https://", "http://")),
    CARS_ADDRESS,
    md5="4e866a7919c1beedf53964e6f7a23686",
)


SHAPES_FILE = Source(
    "3dshapes/3dshapes.h5",
    (SHAPES_ADDRESS,),
    SHAPES_ADDRESS,
    sha256="0a0f6ed98baff276a50f3a081a7434d788da63cb135a98189b2a5b5769be1785",
    md5="099a2078d58cec4daad0702c55d06868",
)


CELEBA_PICTURES = 202_599
# As in its list_eval_partition.txt, where the parts follow each other.
CELEBA_SPLITS = {
    "train": slice(0, 162_770),
    "validation": slice(162_770, 182_637),
    "test": slice(182_637, CELEBA_PICTURES),
}
# Published behind a form: must be downloaded manually.
CELEBA_FILES = (
    Source("celeba/img_align_celeba.zip", page=CELEBA_PAGE, md5="00d2c5bc6d35e252742224ab0c1e8fcb"),
    Source("celeba/list_attr_celeba.txt", page=CELEBA_PAGE, md5="75e246fa4810816ffd6ee81facbd244c"),
)


NORB_FACTORS = {"category": 5, "elevation": 9, "azimuth": 18, "lighting": 6}


SHAPES_FACTORS = {"floor_hue": 10, "wall_hue": 10, "object_hue": 10, "scale": 8, "shape": 4, "orientation": 15}


@register(
    "dataset",
    title="smallNORB",
    summary="toys seen from different sides",
    needs=("files",),
    references=("LeCun2004",),
    images=48_600,
    shape=(1, 64, 64),
    factors=NORB_FACTORS,
    licence="research only",
    sources=NORB_FILES,
    example={"partial": True},
)
def smallnorb(*, clipped: bool = True, partial: bool = False) -> Dataset:
    """Return smallNORB: 48,600 grey pictures of 50 toys, both published parts combined, camera 0 [LeCun2004].

    Resized from 96 to 64 pixels with a Lanczos filter. The ten instances of a category are nuisance: each combination
    of the four factors has ten pictures.

    Args:
        clipped: Whether to clip pixels to [0, 1]; False follows the reference implementation, which keeps the
            overshoot of the filter [Locatello2019].
        partial: Accept fewer pictures than published.

    Returns:
        The dataset.

    Raises:
        DownloadError: If a file is missing and cannot be downloaded.
        DataError: If a file is damaged, or pictures are missing.
    """
    found = decoded("smallnorb" if clipped else "smallnorb-unclipped", NORB_FILES, lambda paths: _norb(paths, clipped))
    _check_count("smallnorb", len(found.images), 48_600, partial)
    space = FactorSpace(
        tuple(NORB_FACTORS),
        tuple(NORB_FACTORS.values()),
        values=(
            np.array(["animal", "human", "plane", "truck", "car"]),
            np.arange(30, 75, 5),
            np.arange(0, 360, 20),
            np.arange(6),
        ),
        table=_table(found),
    )
    return _dataset("smallnorb", found, space)


@register(
    "dataset",
    title="Cars3D",
    summary="cars seen from different sides",
    needs=("files",),
    references=("Reed2015",),
    images=17_568,
    shape=(3, 64, 64),
    factors={"elevation": 4, "azimuth": 24, "object": 183},
    licence="not stated",
    sources=(CARS_FILE,),
    by_hand="cars/*.mat",
    example={"partial": True},
)
def cars3d(*, partial: bool = False) -> Dataset:
    """Return Cars3D: 183 car models seen from 4 elevations and 24 azimuths, in colour, 64x64 [Reed2015].

    The object index follows the sorted names of the files; the reference implementation uses the order in which the
    folder is listed, so on some machines its objects have other numbers.

    Args:
        partial: Accept fewer cars than published.

    Returns:
        The dataset.

    Raises:
        DownloadError: If the file is missing and cannot be downloaded.
        DataError: If a file is damaged, or cars are missing.
    """
    folder = find("cars")
    files = sorted(folder.glob("*.mat")) if folder is not None else []
    found = decoded("cars3d", (CARS_FILE,), _cars, places=files)
    objects = len(found.images) // (4 * 24)
    _check_count("cars3d", objects, 183, partial)
    return _dataset("cars3d", found, FactorSpace(("elevation", "azimuth", "object"), (4, 24, objects)))


@register(
    "dataset",
    title="Shapes3D",
    summary="a solid in a room",
    needs=("files",),
    references=("Burgess2018Shapes",),
    images=480_000,
    shape=(3, 64, 64),
    factors=SHAPES_FACTORS,
    licence="Apache-2.0",
    sources=(SHAPES_FILE,),
    example={"partial": True},
)
def shapes3d(*, partial: bool = False) -> Dataset:
    """Return Shapes3D: 480,000 pictures of a solid in a room, in colour, 64x64 [Burgess2018Shapes].

    The published .h5 is read in pieces, never as a whole.

    Args:
        partial: Accept fewer pictures than published.

    Returns:
        The dataset.

    Raises:
        DownloadError: If the file is missing and cannot be downloaded.
        DataError: If the file is damaged, or pictures are missing.
    """
    found = decoded("shapes3d", (SHAPES_FILE,), _shapes)
    _check_count("shapes3d", len(found.images), 480_000, partial)
    names = tuple(SHAPES_FACTORS)
    values = tuple(np.array(found.values[name]) for name in names)
    table = _table(found)
    whole = FactorSpace(names, tuple(len(of) for of in values), values=values)
    if len(whole) == len(table) and np.array_equal(whole.index(table), np.arange(len(table))):
        return _dataset("shapes3d", found, whole)
    return _dataset("shapes3d", found, FactorSpace(names, whole.sizes, values=values, table=table))


@register(
    "dataset",
    title="CelebA",
    summary="faces",
    needs=("files",),
    references=("Liu2015",),
    images=202_599,
    shape=(3, 64, 64),
    factors={"40 attributes": 2},
    licence="non-commercial research only",
    sources=CELEBA_FILES,
    by_hand="celeba/img_align_celeba/*.jpg",
    example={"partial": True},
)
def celeba(
    *,
    size: int = 64,
    crop: int = 148,
    split: Literal["all", "train", "validation", "test"] = "all",
    partial: bool = False,
) -> Dataset:
    """Return CelebA: 202,599 aligned faces in colour with 40 attributes as factors of size 2 [Liu2015].

    Pictures come from `img_align_celeba.zip` or a folder of the same name, attributes from `list_attr_celeba.txt`.

    Args:
        size: The side of the pictures in pixels.
        crop: The side of the central square to crop first, in pixels of the published pictures.
        split: All pictures, or those published for training (the first 162,770), for validation (the next 19,867) or
            for testing (the last 19,962).
        partial: Accept fewer pictures than published.

    Returns:
        The dataset.

    Raises:
        DownloadError: If a file is missing: they must be downloaded manually.
        DataError: If a file is damaged, pictures are missing, or a split is requested together with `partial`.
    """
    check_counts(size=size, crop=crop)
    check_choice("split", split, ("all", *CELEBA_SPLITS))
    if partial and split != "all":
        raise DataError(f"expected every picture of celeba for its split {split!r}, got partial=True; leave one out")
    folder, attributes = find("celeba/img_align_celeba"), find("celeba/list_attr_celeba.txt")
    if folder is not None and attributes is None:
        raise missing(CELEBA_FILES[1])
    places = [folder, attributes] if folder is not None and attributes is not None else []
    found = decoded(f"celeba-{crop}-{size}", CELEBA_FILES, lambda paths: _faces(paths, size, crop), places=places)
    _check_count("celeba", len(found.images), CELEBA_PICTURES, partial)
    if split != "all":
        part = CELEBA_SPLITS[split]
        found = found._replace(images=found.images[part], factors=_table(found)[part])
    names = tuple(found.values)
    return _dataset("celeba", found, FactorSpace(names, (2,) * len(names), table=_table(found)))


def _dataset(name: str, found: Decoded, space: FactorSpace) -> Dataset:
    shape = tuple(found.images.shape[1:])
    return Dataset(name, shape, len(found.images), as_unit_interval(found.images), factor_space=space)


def _table(found: Decoded) -> NDArray[Any]:
    if found.factors is None:
        raise DataError("expected the factors next to the decoded pictures, found none; delete the folder 'decoded'")
    return found.factors


def _check_count(name: str, received: int, published: int, partial: bool) -> None:
    if received != published and not partial:
        raise DataError(
            f"expected the {published} of {name} as published, got {received}; complete the files, "
            "or accept the existing ones with partial=True"
        )


def _norb(paths: list[Path], clipped: bool) -> PictureStream:
    triples = [paths[:3], paths[3:]]
    tables = []
    count = 0
    for images, categories, details in triples:
        dat, cat, info = norb_matrix(images), norb_matrix(categories), norb_matrix(details)
        for rows, shape, kind in ((dat, (2, 96, 96), "u1"), (cat, (), "<i4"), (info, (4,), "<i4")):
            if rows.shape[1:] != shape or rows.dtype != kind or rows.shape[0] != dat.shape[0]:
                expected = (dat.shape[0], *shape)
                raise refusal(rows.path, f"{kind} numbers of shape {expected}", f"{rows.dtype} of {rows.shape}")
        about = info.whole()
        table = np.column_stack([cat.whole(), about[:, 1], about[:, 2] // 2, about[:, 3]])
        if (about[:, 2] % 2).any() or (table < 0).any() or (table >= tuple(NORB_FACTORS.values())).any():
            raise refusal(details, "smallNORB labels", "labels out of range")
        tables.append(table.astype(np.uint8))
        count += dat.shape[0]

    def chunks() -> Iterator[NDArray[Any]]:
        for images, _, _ in triples:
            for rows in norb_matrix(images).chunks:
                first = rows[:, 0] if clipped else rows[:, 0].astype(np.int32)
                small = np.stack([resized(image, 64, filter="lanczos") for image in first])
                yield small[:, None].astype(np.uint8 if clipped else np.int16)

    return PictureStream((count, 1, 64, 64), np.uint8 if clipped else np.int16, chunks(), np.concatenate(tables))


def _cars(paths: list[Path]) -> PictureStream:
    members = _members_of_tar(paths[0]) if paths[0].suffix != ".mat" else ((p.name, read_whole(p), p) for p in paths)
    cars: dict[str, NDArray[np.uint8]] = {}
    for name, content, path in members:
        if name in cars or len(cars) >= MOST_CARS:
            raise refusal(path, f"each car once, and at most {MOST_CARS}", f"{name} twice, or more of them")
        pictures = mat_array(content, "im", path, shape=(128, 128, 3, 24, 4)).transpose(4, 3, 0, 1, 2)
        small = [
            resized(np.ascontiguousarray(image), 64, filter="lanczos") for image in pictures.reshape(96, 128, 128, 3)
        ]
        cars[name] = np.stack(small).transpose(0, 3, 1, 2)
    if not cars:
        raise refusal(paths[0], "car_*_mesh.mat files", "none")
    by_name = [cars[name] for name in sorted(cars)]
    chunks = (np.stack([car[view] for car in by_name]) for view in range(96))
    return PictureStream((96 * len(cars), 3, 64, 64), np.uint8, chunks)


def _members_of_tar(path: Path) -> Iterator[tuple[str, bytes, Path]]:
    for name, content in tar_members(path, ".mat"):
        if re.search(r"(^|/)cars/[^/]+$", name):
            yield PurePosixPath(name).name, content, path


def _shapes(paths: list[Path]) -> PictureStream:
    path = paths[0]
    names = tuple(SHAPES_FACTORS)
    images, labels = (hdf5_array(path, key) for key in ("images", "labels"))
    count = images.shape[0]
    if images.shape != (count, 64, 64, 3) or images.dtype != np.uint8 or labels.shape != (count, 6) or not count:
        received = f"images {images.dtype} {images.shape}, labels {labels.shape}"
        raise refusal(path, "bytes (n, 64, 64, 3) and labels (n, 6)", received)
    columns = labels.whole().astype(np.float64)
    if not np.isfinite(columns).all():
        raise refusal(path, "finite labels", "NaN or infinite ones")
    values, table = zip(*(np.unique(column, return_inverse=True) for column in columns.T), strict=True)
    chunks = (rows.transpose(0, 3, 1, 2) for rows in images.in_rows(1000))
    factors = np.stack(table, axis=1).astype(np.min_scalar_type(count))
    known = {name: of.tolist() for name, of in zip(names, values, strict=True)}
    return PictureStream((count, 3, 64, 64), np.uint8, chunks, factors, known)


def _faces(paths: list[Path], size: int, crop: int) -> PictureStream:
    place, attributes = paths
    names, files, table = _attributes(attributes)
    contents: Iterable[tuple[str, bytes | Path]] = (
        ((name, contained(place, name, source=attributes)) for name in files)
        if place.is_dir()
        else ((PurePosixPath(name).name, content) for name, content in zip_members(place, ".jpg"))
    )

    def chunks() -> Iterator[NDArray[np.uint8]]:
        for expected, found in zip_longest(files, contents):
            if found is None or found[0] != expected:
                received = "none" if found is None else found[0]
                raise refusal(place, f"the picture {expected or 'of each attribute and no more'}", received)
            name, content = found
            where = content if isinstance(content, Path) else place / name
            yield picture(content, where, size=size, channels=3, crop=crop)[None]

    return PictureStream((len(files), 3, size, size), np.uint8, chunks(), table, {name: [-1, 1] for name in names})


def _attributes(path: Path) -> tuple[list[str], list[str], NDArray[np.uint8]]:
    with refusing(path, "the attributes of CelebA"):
        lines = read_small(path, largest=LARGEST_MEMBER).split("\n")
        count, names = int(lines[0]), lines[1].split()
        rows = sorted(line.split() for line in lines[2:] if line.strip())
        values = np.array([row[1:] for row in rows], dtype=np.int8)
        repeated = [name for name, times in Counter(row[0] for row in rows).items() if times > 1]
        if len(rows) != count or values.shape != (count, len(names)) or repeated or not np.isin(values, (-1, 1)).all():
            raise ValueError(f"{len(rows)} rows of {values.shape[1:]} instead of the announced {count} of {len(names)}")
        if any(PurePosixPath(row[0]).name != row[0] for row in rows):
            raise ValueError("names of pictures with a folder in them")
    return names, [row[0] for row in rows], (values > 0).astype(np.uint8)


SHA256 = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}


# Digests of the content: mirrors compress it differently.
CONTENT = {
    "train-images-idx3-ubyte.gz": "sha256:ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
    "train-labels-idx1-ubyte.gz": "sha256:65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
    "t10k-images-idx3-ubyte.gz": "sha256:0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
    "t10k-labels-idx1-ubyte.gz": "sha256:ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
}


# The publisher of Fashion-MNIST gives only MD5 sums.
FASHION_MD5 = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}


# Digests of the content: in the Debian package the gzip header has no name.
FASHION_CONTENT = {
    "train-images-idx3-ubyte.gz": "f4a8712d7a061bf5bd6d2ca38dc4d50a",
    "train-labels-idx1-ubyte.gz": "9018921c3c673c538a1fc5bad174d6f9",
    "t10k-images-idx3-ubyte.gz": "8181f5470baa50b63fa0f6fddb340f0a",
    "t10k-labels-idx1-ubyte.gz": "15d484375f8d13e6eb1aabb0c3f46965",
}


MNIST_PAGE = "https://yann.lecun.com/exdb/mnist/"


MNIST_FOLDERS = (
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
)


FASHION_PAGE = "https://github.com/zalandoresearch/fashion-mnist"


# The second address has no https; the digests verify the files.
FASHION_FOLDERS = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)


MNIST_FILES = tuple(
    Source(
        f"mnist/{name}",
        tuple(folder + name for folder in MNIST_FOLDERS),
        MNIST_PAGE,
        sha256=digest,
        content=CONTENT[name],
    )
    for name, digest in SHA256.items()
)


FASHION_FILES = tuple(
    Source(
        f"fashion_mnist/{name}",
        tuple(folder + name for folder in FASHION_FOLDERS),
        FASHION_PAGE,
        md5=digest,
        content=f"md5:{FASHION_CONTENT[name]}",
    )
    for name, digest in FASHION_MD5.items()
)


CLOTHES = ["T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Boot"]


Split = Literal["train", "test"]


@register(
    "dataset",
    title="MNIST",
    summary="handwritten digits",
    needs=("files",),
    references=("LeCun1998",),
    images=60_000,
    shape=(1, 32, 32),
    factors={"label": 10},
    licence="CC BY-SA 3.0",
    sources=MNIST_FILES,
    example={"partial": True},
)
def mnist(*, size: int = 32, split: Split = "train", partial: bool = False) -> Dataset:
    """Return MNIST: 60,000 (test: 10,000) handwritten digits, grey, resized from 28 pixels [LeCun1998].

    Read from the four published idx files, compressed or not.

    Args:
        size: The side of the pictures in pixels; 28 is the original.
        split: The 60,000 pictures for training or the 10,000 for testing.
        partial: Accept fewer pictures than published.

    Returns:
        The dataset.

    Raises:
        DownloadError: If a file is missing and cannot be downloaded.
        DataError: If a file is damaged, or pictures are missing.
    """
    return _labelled("mnist", MNIST_FILES, [str(digit) for digit in range(10)], size, split, partial)


@register(
    "dataset",
    title="Fashion-MNIST",
    summary="pieces of clothing",
    needs=("files",),
    references=("Xiao2017",),
    images=60_000,
    shape=(1, 32, 32),
    factors={"label": 10},
    licence="MIT",
    sources=FASHION_FILES,
    example={"partial": True},
)
def fashion_mnist(*, size: int = 32, split: Split = "train", partial: bool = False) -> Dataset:
    """Return Fashion-MNIST: 60,000 (test: 10,000) pieces of clothing, grey, resized [Xiao2017].

    [Mathieu2019] trains on 32x32. The files have the same names as those of MNIST, in a separate folder.

    Args:
        size: The side of the pictures in pixels; 28 is the original.
        split: The 60,000 pictures for training or the 10,000 for testing.
        partial: Accept fewer pictures than published.

    Returns:
        The dataset.

    Raises:
        DownloadError: If a file is missing and cannot be downloaded.
        DataError: If a file is damaged, or pictures are missing.
    """
    return _labelled("fashion_mnist", FASHION_FILES, CLOTHES, size, split, partial)


def _labelled(
    name: str, files: tuple[Source, ...], labels: list[str], size: int, split: Split, partial: bool
) -> Dataset:
    check_choice("split", split, ("train", "test"))
    if not 1 <= size <= 1024:
        raise DataError(f"expected a size between 1 and 1024 pixels for {name}, got {size}; 28 is the original")
    sources = files[:2] if split == "train" else files[2:]
    found = decoded(f"{name}-{split}-{size}", sources, lambda paths: _digits(paths, size))
    published = 60_000 if split == "train" else 10_000
    if len(found.images) != published and not partial:
        raise DataError(
            f"expected the {published} pictures of {name} as published, got {len(found.images)}; "
            "download the files again, or accept the existing pictures with partial=True"
        )
    space = FactorSpace(("label",), (10,), values=(np.array(labels),), table=found.factors)
    return Dataset(name, (1, size, size), len(found.images), as_unit_interval(found.images), factor_space=space)


def _digits(paths: list[Path], size: int) -> PictureStream:
    images, labels = idx(paths[0]), idx(paths[1])
    count = images.shape[0]
    if len(images.shape) != 3 or images.shape[1:] != (28, 28):
        raise refusal(paths[0], "pictures (n, 28, 28)", f"{images.shape}")
    if labels.shape != (count,):
        raise refusal(paths[1], f"{count} labels", f"{labels.shape}")
    table = labels.whole()[:, None]
    if table.max() > 9:
        raise refusal(paths[1], "labels 0 to 9", f"{table.max()}")
    chunks = (np.stack([resized(one, size, filter="bilinear") for one in rows])[:, None] for rows in images.chunks)
    return PictureStream((count, 1, size, size), np.uint8, chunks, table)
