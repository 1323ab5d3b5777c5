"""Pictures and arrays of users as a dataset."""

import io
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from polarised._io.files import expanded, refusal, refusing
from polarised._io.limits import Budget, call_apart
from polarised._io.readers import npz_member
from polarised.data.cache import PictureStream, as_unit_interval, decoded, name_of
from polarised.data.dataset import Dataset, FactorSpace, check_choice, check_counts
from polarised.errors import DataError, MissingFileError
from polarised.registry import register

if TYPE_CHECKING:
    from PIL import Image

__all__ = ["dataset_from_arrays", "from_folder", "from_npz", "open_picture", "picture", "resized", "thumbnail"]

SUFFIXES = {".png", ".jpg", ".jpeg", ".bmp", ".webp", ".tif", ".tiff"}


YOURS = "yours"


def _example_of_npz(folder: Path) -> dict[str, Any]:
    file = folder / "pictures.npz"
    np.savez(file, images=np.random.default_rng(0).integers(0, 256, (4, 3, 30, 24), dtype=np.uint8))
    return {"path": str(file)}


def _example_of_folder(folder: Path) -> dict[str, Any]:
    from PIL import Image

    generator = np.random.default_rng(0)
    for number in range(6):
        file = folder / ("cats" if number < 3 else "dogs") / f"{number}.png"
        file.parent.mkdir(exist_ok=True)
        Image.fromarray(generator.integers(0, 256, (70, 80, 3), dtype=np.uint8)).save(file)
    return {"path": str(folder)}


def dataset_from_arrays(
    images: NDArray[Any],
    *,
    factors: NDArray[Any] | None = None,
    names: Sequence[str] | None = None,
    u: NDArray[Any] | None = None,
    channels_last: bool = False,
    name: str = "from_arrays",
) -> Dataset:
    """Return a dataset of arrays: images (n, C, H, W) or (n, H, W), or vectors (n, D); bytes are divided by 255.

    Args:
        images: Images or vectors, one for each row.
        factors: Whole numbers from 0, (n, F) or (n,), or None.
        names: The names of the factors; factor_0, factor_1 ... by default.
        u: Auxiliary variables, (n, k), or None [Khemakhem2020].
        channels_last: Whether the images are (n, H, W, C).
        name: The name of the dataset in tables.

    Returns:
        The dataset.

    Raises:
        DataError: If an array has another shape or type, or is not finite.

    >>> dataset = dataset_from_arrays(np.zeros((6, 8, 8), dtype=np.uint8), factors=np.arange(6) % 3, names=["label"])
    >>> dataset.shape, dataset.factor_space.sizes
    ((1, 8, 8), (3,))
    """
    pictures = _pictures(np.asarray(images), channels_last, name)
    count = len(pictures)
    space = None if factors is None else _space(np.asarray(factors), names, count, name)
    auxiliary = None if u is None else _columns(np.asarray(u), count, name)
    read = as_unit_interval(pictures) if pictures.dtype == np.uint8 else _as_float(pictures)
    return Dataset(
        name,
        tuple(pictures.shape[1:]),
        count,
        read,
        factor_space=space,
        auxiliary=None if auxiliary is None else auxiliary.__getitem__,
        auxiliary_size=0 if auxiliary is None else auxiliary.shape[1],
    )


@register(
    "dataset",
    title="your arrays",
    summary="your arrays",
    licence=YOURS,
    example=_example_of_npz,
)
def from_npz(
    *,
    path: str,
    images: str = "images",
    factors: str | None = None,
    names: tuple[str, ...] | None = None,
    u: str | None = None,
    channels_last: bool = False,
) -> Dataset:
    """Return a dataset of the arrays in an .npz; pickled arrays are refused.

    Args:
        path: The file.
        images: The name of the array of images in it.
        factors: The name of the array of factors, if there is one.
        names: The names of the factors.
        u: The name of the array of auxiliary variables, if there is one.
        channels_last: Whether the images are (n, H, W, C).

    Returns:
        The dataset.

    Raises:
        DataError: If there is no such file or array, or it is invalid.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "mine.npz"
    >>> np.savez(file, images=np.zeros((4, 3, 16, 16), dtype=np.uint8))
    >>> from_npz(path=str(file)).shape
    (3, 16, 16)
    """
    place = expanded(path)
    if not place.is_file():
        raise MissingFileError(f"expected an .npz at {path}, there is no such file; check the path")
    arrays = {key: npz_member(place, key).whole() for key in (images, factors, u) if key is not None}
    return dataset_from_arrays(
        arrays[images],
        factors=None if factors is None else arrays[factors],
        names=names,
        u=None if u is None else arrays[u],
        channels_last=channels_last,
        name=place.stem,
    )


@register(
    "dataset",
    title="your pictures",
    summary="your pictures",
    licence=YOURS,
    example=_example_of_folder,
)
def from_folder(*, path: str, size: int = 64, channels: Literal[1, 3] = 3, crop: int | None = None) -> Dataset:
    """Return a dataset of all pictures below a folder, in the order of their names, decoded once.

    Each picture is cropped to its central square and resized. If there are several subfolders, the subfolder is a
    factor. In a config: {name: from_folder, path: ~/pictures, size: 64}.

    Args:
        path: The folder.
        size: The side of the pictures in pixels.
        channels: 3 for colour, 1 for grey.
        crop: The side of the central square to crop first; as large as possible by default.

    Returns:
        The dataset.

    Raises:
        DataError: If the folder has no pictures, one is damaged, or the size is out of range.
    """
    check_choice("channels", channels, (1, 3))
    if crop is not None:
        check_counts(crop=crop)
    place = expanded(path)
    files = sorted(file for file in place.rglob("*") if file.suffix.lower() in SUFFIXES and file.is_file())
    if not files:
        raise MissingFileError(f"expected pictures (png, jpg, ...) below {path}, found none; check the path")
    if not 1 <= size <= 1024:
        raise DataError(f"expected a size between 1 and 1024 pixels, got {size}")
    homes = [str(file.parent.relative_to(place)) for file in files]
    groups = sorted(set(homes))
    numbers = {group: number for number, group in enumerate(groups)}
    labels = np.array([[numbers[home]] for home in homes])

    def decode(paths: list[Path]) -> PictureStream:
        def chunks() -> Iterator[NDArray[np.uint8]]:
            for file in paths:
                yield picture(file, file, size=size, channels=channels, crop=crop)[None]

        return PictureStream((len(paths), channels, size, size), np.uint8, chunks())

    found = decoded(f"own-{name_of(place)}-{size}-{channels}-{crop or 0}", (), decode, places=files)
    space = FactorSpace(("folder",), (len(groups),), values=(np.array(groups),), table=labels)
    return Dataset(
        place.name,
        (channels, size, size),
        len(files),
        as_unit_interval(found.images),
        factor_space=space if len(groups) > 1 else None,
    )


def _pictures(images: NDArray[Any], channels_last: bool, name: str) -> NDArray[Any]:
    if images.dtype.kind not in "fuib" or images.ndim not in (2, 3, 4) or 0 in images.shape:
        raise DataError(
            f"expected numbers of shape (n, C, H, W), (n, H, W) or (n, D) as images of {name}, "
            f"got {images.dtype} of shape {images.shape}"
        )
    if images.dtype.kind == "f" and not np.isfinite(images).all():
        raise DataError(f"expected finite images in {name}, got NaN or infinite pixels; clean them first")
    if images.dtype.kind in "iu" and images.dtype != np.uint8 and images.ndim > 2:
        raise DataError(
            f"expected images of {name} as bytes 0 to 255 or as floats 0 to 1, got {images.dtype}; convert them"
        )
    if images.ndim == 3:
        return images[:, None]
    return np.moveaxis(images, -1, 1) if images.ndim == 4 and channels_last else images


def _as_float(values: NDArray[Any]) -> Any:
    def read(indices: NDArray[np.int64]) -> NDArray[np.float32]:
        return values[indices].astype(np.float32)

    return read


def _space(factors: NDArray[Any], names: Sequence[str] | None, count: int, name: str) -> FactorSpace:
    table = factors[:, None] if factors.ndim == 1 else factors
    if table.ndim != 2 or len(table) != count or not table.shape[1] or table.dtype.kind not in "iubf":
        raise DataError(
            f"expected a row of factors for each image of {name}, shape ({count}, F), "
            f"got {factors.dtype} of shape {factors.shape}"
        )
    chosen = tuple(names) if names is not None else tuple(f"factor_{i}" for i in range(table.shape[1]))
    if len(chosen) != table.shape[1]:
        raise DataError(f"expected {table.shape[1]} factor names for {name}, got {chosen}")
    if not np.array_equal(table, np.floor(table)) or table.min() < 0:
        raise DataError(
            f"expected whole numbers from 0 as factors of {name}, got others; "
            "number the values of each factor with np.unique(column, return_inverse=True)"
        )
    whole = table.astype(np.int64)
    return FactorSpace(chosen, tuple(int(top) + 1 for top in whole.max(axis=0)), table=whole)


def _columns(u: NDArray[Any], count: int, name: str) -> NDArray[np.float32]:
    if u.ndim != 2 or len(u) != count or not u.shape[1] or u.dtype.kind not in "iubf":
        raise DataError(f"expected u of shape ({count}, k) for {name}, got {u.dtype} of shape {u.shape}")
    if not np.isfinite(u).all():
        raise DataError(f"expected finite u for {name}, got NaN or infinite values")
    return u.astype(np.float32)


# Recognised by content, never by name: readers of other formats start programs (EPS) or are rarely reviewed.
FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "TIFF")


KIND = "a picture (PNG, JPEG, WebP, BMP or TIFF)"


# A picture with this many pixels takes 256 MiB in colour.
MOST_PIXELS = (1 << 28) // 3


Filter = Literal["lanczos", "bilinear"]


def open_picture(
    content: bytes | Path, path: Path, *, mode: Literal["L", "RGB"], largest: int = MOST_PIXELS
) -> "Image.Image":
    """Return a decoded picture; the only place that opens files with Pillow.

    Pictures of others are opened in the process apart, by `picture` and `thumbnail`: a few kilobytes of them can take
    a gigabyte, or minutes.

    Args:
        content: The bytes of the picture, or its file.
        path: The name of the picture in an error.
        mode: Grey ("L") or colour ("RGB").
        largest: How many pixels it may have.

    Returns:
        The decoded picture, without its file.

    Raises:
        DataError: If it is damaged, of another format than PNG, JPEG, WebP, BMP and TIFF, or claims too many pixels.

    >>> open_picture(b"%!PS-Adobe-3.0 EPSF-3.0", Path("cat.png"), mode="RGB")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    polarised.errors.DataError: expected a picture (PNG, JPEG, WebP, BMP or TIFF) in cat.png, got another format ...
    """
    from PIL import Image, UnidentifiedImageError

    source = io.BytesIO(content) if isinstance(content, bytes) else content
    with refusing(path, KIND), warnings.catch_warnings():
        # A picture that claims far more pixels than it has bytes is refused, not decoded with a warning.
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            with Image.open(source, formats=FORMATS) as image:
                width, height = image.size
                # Other code can switch off the limit of Pillow for the whole process.
                if width * height > min(largest, MOST_PIXELS):
                    raise Image.DecompressionBombError(f"{width}x{height} pixels")
                return image.convert(mode)
        except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
            raise refusal(path, f"{KIND} of at most {min(largest, MOST_PIXELS):,} pixels", "a larger one") from error
        except UnidentifiedImageError as error:
            raise refusal(path, KIND, "another format or a damaged file") from error


def picture(
    content: bytes | Path, path: Path, *, size: int, channels: int, crop: int | None = None
) -> NDArray[np.uint8]:
    """Return the central square of a picture, resized.

    Args:
        content: The bytes of the picture, or its file.
        path: The name of the picture in an error.
        size: The side of the result in pixels.
        channels: 3 for colour, 1 for grey.
        crop: The side of the central square to crop first; as large as possible by default.

    Returns:
        Bytes, (channels, size, size).

    Raises:
        DataError: If the picture is damaged, of another format, or too large.
    """
    budget = _budget(content, path)
    return call_apart(budget, KIND, _square, content, path, budget.held // 3, size, channels, crop)


def _budget(content: bytes | Path, path: Path) -> Budget:
    """Return the budget of a picture in a file, or of one in an archive by its bytes."""
    return Budget.of(content) if isinstance(content, Path) else Budget.of_size(path, len(content))


def _square(
    content: bytes | Path, path: Path, largest: int, size: int, channels: int, crop: int | None
) -> NDArray[np.uint8]:
    image = open_picture(content, path, mode="L" if channels == 1 else "RGB", largest=largest)
    width, height = image.size
    side = min(width, height, crop or width)
    left, top = (width - side) // 2, (height - side) // 2
    fitted = image.crop((left, top, left + side, top + side))
    array = resized(np.asarray(fitted), size, filter="lanczos").reshape(size, size, channels)
    return np.ascontiguousarray(array.transpose(2, 0, 1))


def resized(image: NDArray[Any], size: int, *, filter: Filter) -> NDArray[Any]:
    """Return an image with both sides of one size; bytes stay bytes, int32 is rounded and not clipped.

    Args:
        image: The image, (H, W) or (H, W, 3).
        size: The side of the result in pixels.
        filter: The resampling filter.

    Returns:
        The image, (size, size) or (size, size, 3).

    >>> resized(np.full((96, 96), 7, dtype=np.uint8), 64, filter="lanczos").shape
    (64, 64)
    """
    from PIL import Image

    if image.shape[:2] == (size, size):
        return image
    how = Image.Resampling.LANCZOS if filter == "lanczos" else Image.Resampling.BILINEAR
    return np.asarray(Image.fromarray(image).resize((size, size), how))


def thumbnail(path: Path, *, width: int, height: int) -> NDArray[np.float32]:
    """Return a colour picture, shrunk to fit into a rectangle with the same aspect ratio.

    Args:
        path: The file of the picture.
        width: The largest width in pixels.
        height: The largest height in pixels.

    Returns:
        The picture, (3, H, W) in [0, 1].

    Raises:
        DataError: If the picture is damaged, of another format, or too large.
    """
    budget = _budget(path, path)
    return call_apart(budget, KIND, _shrunk, path, budget.held // 3, width, height)


def _shrunk(path: Path, largest: int, width: int, height: int) -> NDArray[np.float32]:
    image = open_picture(path, path, mode="RGB", largest=largest)
    image.thumbnail((width, height))
    return np.ascontiguousarray(np.asarray(image, dtype=np.float32).transpose(2, 0, 1)) / np.float32(255)
