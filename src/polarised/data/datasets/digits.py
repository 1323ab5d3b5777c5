"""MNIST and Fashion-MNIST, whose only factor is their label."""

from pathlib import Path
from typing import Literal

import numpy as np

from polarised.data.checks import check_choice
from polarised.data.dataset import Dataset, FactorSpace
from polarised.data.decoded import Pictures, as_unit_interval, decoded
from polarised.data.download import Source
from polarised.data.pictures import resized
from polarised.data.readers import idx, refusal
from polarised.errors import DataError

__all__ = ["SOURCES", "fashion_mnist", "mnist"]

SHA256 = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}

# Fashion-MNIST's publisher gives MD5 sums only.
FASHION_MD5 = {
    "train-images-idx3-ubyte.gz": "8d4fb7e6c68d591d4c3dfef9ec88bf0d",
    "train-labels-idx1-ubyte.gz": "25c81989df183df01b3e8a0aad5dffbe",
    "t10k-images-idx3-ubyte.gz": "bef4ecab320f06d8554ea6380940ec79",
    "t10k-labels-idx1-ubyte.gz": "bb300cfdad3c16e7a12a480ee83cd310",
}
MNIST_PAGE = "http://yann.lecun.com/exdb/mnist/"
MNIST_FOLDERS = (
    "https://storage.googleapis.com/cvdf-datasets/mnist/",
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
)
FASHION_PAGE = "https://github.com/zalandoresearch/fashion-mnist"
FASHION_FOLDERS = (
    "https://raw.githubusercontent.com/zalandoresearch/fashion-mnist/master/data/fashion/",
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
)

SOURCES = {
    "mnist": tuple(
        Source(f"mnist/{name}", tuple(folder + name for folder in MNIST_FOLDERS), MNIST_PAGE, sha256=digest)
        for name, digest in SHA256.items()
    ),
    "fashion_mnist": tuple(
        Source(f"fashion_mnist/{name}", tuple(folder + name for folder in FASHION_FOLDERS), FASHION_PAGE, md5=digest)
        for name, digest in FASHION_MD5.items()
    ),
}

CLOTHES = ["T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Boot"]

Split = Literal["train", "test"]


def mnist(*, size: int = 32, split: Split = "train", partial: bool = False) -> Dataset:
    """Return MNIST: 60,000 (test: 10,000) handwritten digits, grey, resized from 28 pixels to `size` [LeCun1998].

    Read from the four published idx files, compressed or not. `partial` accepts fewer pictures.
    """
    return _labelled("mnist", [str(digit) for digit in range(10)], size, split, partial)


def fashion_mnist(*, size: int = 32, split: Split = "train", partial: bool = False) -> Dataset:
    """Return Fashion-MNIST: 60,000 (test: 10,000) pieces of clothing, grey, resized to `size` [Xiao2017].

    [Mathieu2019] trains on 32x32. The files bear the names of MNIST's in a folder of their own.
    """
    return _labelled("fashion_mnist", CLOTHES, size, split, partial)


def _labelled(name: str, labels: list[str], size: int, split: Split, partial: bool) -> Dataset:
    check_choice("split", split, ("train", "test"))
    if not 1 <= size <= 1024:
        raise DataError(f"expected a size between 1 and 1024 pixels for {name}, got {size}; 28 is the original")
    sources = SOURCES[name][:2] if split == "train" else SOURCES[name][2:]
    found = decoded(f"{name}-{split}-{size}", sources, lambda paths: _digits(paths, size))
    published = 60_000 if split == "train" else 10_000
    if len(found.images) != published and not partial:
        raise DataError(
            f"expected the {published} pictures of {name} as published, got {len(found.images)}; "
            "get the files again, or accept what is there with partial=True"
        )
    space = FactorSpace(("label",), (10,), values=(np.array(labels),), table=found.factors)
    return Dataset(name, (1, size, size), len(found.images), as_unit_interval(found.images), factor_space=space)


def _digits(paths: list[Path], size: int) -> Pictures:
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
    return Pictures((count, 1, size, size), np.uint8, chunks, table)
