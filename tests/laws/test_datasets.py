"""Laws that every dataset of the catalogue keeps."""

from pathlib import Path

import numpy as np
import pytest

from data import published
from polarised.data import Dataset, contact_sheet, describe, prepare
from polarised.random import stream
from polarised.registry import Record, build, complete, records, settings

PAGE = "dataset"
# An example that writes its own file first is one; others are as many as the record has.
CASES = [(each, i) for each in records(PAGE) for i in range(1 if callable(each.example) else len(each.examples()))]


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
    return folder


@pytest.fixture(params=CASES, ids=lambda case: f"{case[0].name}-{case[1]}")
def dataset(request: pytest.FixtureRequest, files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Dataset:
    monkeypatch.setenv("POLARISED_DATA", str(files))
    monkeypatch.delenv("DISENTANGLEMENT_LIB_DATA", raising=False)
    record, number = request.param
    (tmp_path / "example").mkdir()
    made = build(PAGE, record.examples(tmp_path / "example")[number])
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


def test_an_image_does_not_depend_on_the_others(dataset: Dataset) -> None:
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


@pytest.mark.parametrize("record", records(PAGE), ids=lambda record: record.name)
def test_entry_takes_settings_only_and_is_described(record: Record) -> None:
    about = {about.name: about for about in describe()}[record.name]
    assert about.summary
    assert about.licence
    accepted = settings(record.call)
    assert all(parameter.annotation is not parameter.empty for parameter in accepted.values())
    if not callable(record.example):
        assert complete(PAGE, record.name)["name"] == record.name
        assert about.citation
    assert bool(about.files) or "files" not in record.needs


@pytest.mark.parametrize("name", [about.name for about in describe() if about.licence == "made here"])
def test_description_matches_what_is_made(name: str) -> None:
    about = next(about for about in describe() if about.name == name)
    made = prepare(name)
    assert (len(made), made.shape) == (about.images, about.shape)
    space = made.factor_space
    assert about.factors == ({} if space is None else dict(zip(space.names, space.sizes, strict=True)))
