"""Laws that every dataset of the catalogue keeps."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data import published
from polarised.data import Dataset, contact_sheet, describe, prepare
from polarised.random import stream
from polarised.registry import build, complete, entry, names, settings

PAGE = "dataset"
PARTIAL = {"partial": True}
SETTINGS: dict[str, dict[str, Any]] = {
    "smallnorb": PARTIAL,
    "cars3d": PARTIAL,
    "shapes3d": PARTIAL,
    "celeba": PARTIAL,
    "mnist": PARTIAL,
    "fashion_mnist": PARTIAL,
    "nonlinear_ica": {"points": 20},
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with a small file of every kind."""
    from PIL import Image

    folder = tmp_path_factory.mktemp("data")
    published.write_smallnorb(folder)
    published.write_cars_tar(folder / "cars" / "nips2015-analogy-data.tar.gz")
    published.write_shapes3d(folder / "3dshapes" / "3dshapes.h5")
    published.write_celeba(folder)
    published.write_digits(folder, "mnist")
    published.write_digits(folder, "fashion_mnist")
    (folder / "scream").mkdir()
    noise = np.random.default_rng(0).integers(0, 256, (300, 240, 3), dtype=np.uint8)
    Image.fromarray(noise).save(folder / "scream" / "scream.jpg")
    for group in ("cats", "dogs"):
        (folder / "own" / group).mkdir(parents=True)
        for number in range(3):
            (folder / "own" / group / f"{number}.png").write_bytes(published.jpeg((number * 50, 9, 9), (80, 70)))
    np.savez(folder / "own.npz", images=noise[None].repeat(4, axis=0).transpose(0, 3, 1, 2))
    return folder


@pytest.fixture(params=names(PAGE))
def dataset(request: pytest.FixtureRequest, files: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    monkeypatch.setenv("POLARISED_DATA", str(files))
    monkeypatch.delenv("DISENTANGLEMENT_LIB_DATA", raising=False)
    own = {"from_folder": {"path": str(files / "own")}, "from_npz": {"path": str(files / "own.npz")}}
    made = build(PAGE, {"name": request.param, **SETTINGS.get(request.param, {}), **own.get(request.param, {})})
    assert isinstance(made, Dataset)
    return made


def test_batch_is_a_pure_function_of_seed_and_step(dataset: Dataset) -> None:
    first, again = dataset.batch(7, 5, 3), dataset.batch(7, 5, 3)
    for one, other in zip(vars(first).values(), vars(again).values(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert not np.array_equal(dataset.batch(8, 50, 3).indices, dataset.batch(7, 50, 3).indices)
    assert not np.array_equal(dataset.batch(7, 50, 4).indices, dataset.batch(7, 50, 3).indices)


def test_batch_has_the_declared_shapes_and_types(dataset: Dataset) -> None:
    for batch in (dataset.batch(0, 4, 0), dataset.sample(4, 0)):
        assert batch.images.shape == (4, *dataset.shape)
        assert batch.images.dtype == np.float32
        assert batch.images.flags.writeable
        assert batch.indices.dtype == np.int64
        if dataset.factor_space is None:
            assert batch.factors is None
        else:
            assert batch.factors is not None
            assert batch.factors.shape == (4, len(dataset.factor_space.names))
            assert batch.factors.dtype == np.int64
        assert (0 if batch.u is None else batch.u.shape[1]) == dataset.auxiliary_size
        assert batch.u is None or batch.u.dtype == np.float32


def test_images_lie_between_zero_and_one_and_vary(dataset: Dataset) -> None:
    images = dataset.batch(0, 64, 0).images
    assert np.isfinite(images).all()
    assert images.std() > 0
    if len(dataset.shape) == 3:
        assert images.min() >= 0
        assert images.max() <= 1


def test_an_image_does_not_depend_on_its_company(dataset: Dataset) -> None:
    some = np.arange(min(6, len(dataset)))[::-1]
    together = dataset.images[some]
    for image, index in zip(together, some, strict=True):
        np.testing.assert_array_equal(dataset.images[int(index)], image)


def test_images_and_batches_agree_where_there_is_no_nuisance(dataset: Dataset) -> None:
    batch = dataset.batch(0, 8, 0)
    if dataset.nuisance is None:
        np.testing.assert_array_equal(dataset.images[batch.indices], batch.images)
    else:
        assert not np.array_equal(dataset.images[batch.indices], batch.images)
        other = dataset.draw(batch.indices, stream(1, "other"))
        assert not np.array_equal(other, batch.images)


def test_factors_lead_back_to_an_image_with_them(dataset: Dataset) -> None:
    space = dataset.factor_space
    if space is None:
        return
    assert len(space) == len(dataset)
    batch = dataset.batch(0, 16, 0)
    assert batch.factors is not None
    np.testing.assert_array_equal(space.factors(space.index(batch.factors)), batch.factors)
    drawn = space.sample(16, stream(0, "law"))
    np.testing.assert_array_equal(space.factors(space.index(drawn, stream(0, "law"))), drawn)


def test_writing_into_a_batch_does_not_change_the_dataset(dataset: Dataset) -> None:
    batch = dataset.batch(0, 4, 0)
    kept = batch.images.copy()
    batch.images[:] = -1
    np.testing.assert_array_equal(dataset.batch(0, 4, 0).images, kept)


def test_contact_sheet_is_a_picture(dataset: Dataset, tmp_path: Path) -> None:
    from PIL import Image

    path = contact_sheet(dataset, tmp_path / "sheet.png", columns=4)
    with Image.open(path) as picture:
        assert min(picture.size) > 300


@pytest.mark.parametrize("name", names(PAGE))
def test_entry_takes_settings_only_and_is_described(name: str) -> None:
    described = {about.name: about for about in describe()}
    assert name in described
    if name not in ("from_folder", "from_npz"):
        assert complete(PAGE, name)["name"] == name
        assert described[name].citation
        assert described[name].licence
    assert all(parameter.annotation is not parameter.empty for parameter in settings(entry(PAGE, name)).values())


@pytest.mark.parametrize("name", [about.name for about in describe() if about.licence == "made here"])
def test_description_matches_what_is_made(name: str) -> None:
    about = next(about for about in describe() if about.name == name)
    made = prepare(name)
    assert (len(made), made.shape) == (about.images, about.shape)
    sizes = (
        {} if made.factor_space is None else dict(zip(made.factor_space.names, made.factor_space.sizes, strict=True))
    )
    assert sizes == about.factors
