import gzip
import io
import tarfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from data import published
from polarised.data import cars3d, celeba, shapes3d, smallnorb
from polarised.data.published import CELEBA_SPLITS
from polarised.errors import DataError, DownloadError

NORB = "smallnorb-5x46789x9x18x6x2x96x96-training"


@pytest.mark.parametrize("compressed", [True, False])
def test_smallnorb_joins_both_chunks_and_takes_camera_0(folder: Path, compressed: bool) -> None:
    written = published.write_smallnorb(folder, compressed=compressed)
    dataset = smallnorb(partial=True)
    assert dataset.shape == (1, 64, 64)
    assert len(dataset) == 12
    space = dataset.factor_space
    assert space is not None
    assert space.names == ("category", "elevation", "azimuth", "lighting")
    assert space.sizes == (5, 9, 18, 6)
    info = written["info"]
    expected = np.column_stack([written["cat"], info[:, 1], info[:, 2] // 2, info[:, 3]])
    np.testing.assert_array_equal(space.factors(slice(None)), expected)
    for image, original in zip(dataset.images[:], written["dat"][:, 0], strict=True):
        small = Image.fromarray(original).resize((64, 64), Image.Resampling.LANCZOS)
        np.testing.assert_array_equal(image[0], np.asarray(small, dtype=np.float32) / np.float32(255))


def test_smallnorb_unclipped_keeps_the_overshoot(folder: Path) -> None:
    """The reference passes signed bytes to Pillow, which treats them as unsigned and filters 32-bit integers."""
    written = published.write_smallnorb(folder)
    images = smallnorb(clipped=False, partial=True).images[:]
    assert images.min() < -0.1
    assert images.max() > 1.1
    for image, original in zip(images, written["dat"][:, 0], strict=True):
        theirs = Image.fromarray(original.view(np.int8)).resize((64, 64), Image.Resampling.LANCZOS)
        np.testing.assert_allclose(image[0], np.asarray(theirs) / 255.0, atol=1e-6)


@pytest.mark.parametrize(
    ("part", "array", "kind"),
    [
        ("dat", np.ones((6, 2, 95, 96)), "u1"),
        ("dat", np.ones((5, 2, 96, 96)), "u1"),
        ("dat", np.ones((6, 2, 96, 96)), "<i4"),
        ("cat", np.ones((6, 1)), "<i4"),
        ("cat", np.full(6, 5), "<i4"),
        ("cat", np.full(6, -1), "<i4"),
        ("info", np.ones((6, 3)), "<i4"),
        ("info", np.tile([0, 0, 3, 0], (6, 1)), "<i4"),
        ("info", np.tile([0, 9, 2, 0], (6, 1)), "<i4"),
    ],
)
def test_smallnorb_refuses_other_arrays(folder: Path, part: str, array: np.ndarray, kind: str) -> None:
    published.write_smallnorb(folder)
    path = folder / "small_norb" / f"{NORB}-{part}.mat.gz"
    path.write_bytes(gzip.compress(published.norb_bytes(array, kind), compresslevel=1))
    with pytest.raises(DataError, match=r"smallnorb-.*-training-.*\.mat\.gz"):
        smallnorb(partial=True)
    assert not any((folder / "decoded").glob("*")) if (folder / "decoded").exists() else True


def test_smallnorb_refuses_a_truncated_file_even_late(folder: Path) -> None:
    published.write_smallnorb(folder, compressed=False)
    path = folder / "small_norb" / f"{NORB}-dat.mat"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(DataError, match="delete the file and get it again"):
        smallnorb(partial=True)


def test_fewer_pictures_than_published_need_partial(folder: Path) -> None:
    published.write_smallnorb(folder)
    with pytest.raises(DataError, match=r"48600 of smallnorb as published, got 12; .*partial=True"):
        smallnorb()


@pytest.mark.parametrize("unpacked", [False, True])
def test_cars_are_sorted_by_name_and_object_varies_fastest(folder: Path, unpacked: bool) -> None:
    archive = folder / "cars" / "nips2015-analogy-data.tar.gz"
    written = published.write_cars_tar(archive, (3, 1))
    if unpacked:
        archive.unlink()
        for number in (3, 1):
            (folder / "cars" / f"car_{number:03d}_mesh.mat").write_bytes(published.car_bytes(number)[0])
    dataset = cars3d(partial=True)
    assert len(dataset) == 4 * 24 * 2
    space = dataset.factor_space
    assert space is not None
    assert (space.names, space.sizes) == (("elevation", "azimuth", "object"), (4, 24, 2))
    for factors in ([0, 0, 0], [3, 5, 1], [2, 23, 0]):
        elevation, azimuth, thing = factors
        colour = written[(1, 3)[thing]][0, 0, :, azimuth, elevation] / 255
        image = dataset.images[int(space.index([factors])[0])]
        np.testing.assert_allclose(image, np.broadcast_to(colour[:, None, None], (3, 64, 64)), atol=1e-6)


def test_cars_refusals(folder: Path) -> None:
    path = folder / "cars" / "nips2015-analogy-data.tar.gz"
    published.write_cars_tar(path, (1,))
    with pytest.raises(DataError, match="183 of cars3d as published, got 1"):
        cars3d()
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(DataError, match=r"analogy-data\.tar\.gz, got"):
        cars3d(partial=True)
    with tarfile.open(path, "w:gz") as archive:
        for name in ("data/cars/car_001_mesh.mat", "x/cars/car_001_mesh.mat"):
            published.add_to_tar(archive, name, published.car_bytes(1)[0])
    with pytest.raises(DataError, match="twice"):
        cars3d(partial=True)
    with tarfile.open(path, "w:gz") as archive:
        published.add_to_tar(archive, "data/chairs/chair.mat", b"")
    with pytest.raises(DataError, match=r"car_\*_mesh\.mat files.*none"):
        cars3d(partial=True)


def test_a_car_of_another_shape_is_refused(folder: Path) -> None:
    from scipy.io import savemat

    (folder / "cars").mkdir()
    buffer = io.BytesIO()
    savemat(buffer, {"im": np.zeros((64, 64, 3, 24, 4), dtype=np.uint8)})
    (folder / "cars" / "car_001_mesh.mat").write_bytes(buffer.getvalue())
    with pytest.raises(DataError, match=r"shape \(128, 128, 3, 24, 4\)"):
        cars3d(partial=True)


def test_shapes3d_in_full_order_needs_no_table(folder: Path) -> None:
    images = published.write_shapes3d(folder / "3dshapes" / "3dshapes.h5")
    dataset = shapes3d(partial=True)
    space = dataset.factor_space
    assert space is not None
    assert space.sizes == published.FACTORS_OF_SHAPES
    assert space.table is None
    assert space.values is not None
    np.testing.assert_allclose(space.values[5], [-30, 0, 30])
    np.testing.assert_array_equal(dataset.images[[95]][0], images[95].transpose(2, 0, 1) / np.float32(255))
    with pytest.raises(DataError, match="480000 of shapes3d"):
        shapes3d()


def test_shapes3d_out_of_order_keeps_its_labels(folder: Path) -> None:
    import h5py

    path = folder / "3dshapes" / "3dshapes.h5"
    published.write_shapes3d(path)
    with h5py.File(path, "a") as file:
        labels = file["labels"][()]
        file["labels"][...] = labels[::-1]
    space = shapes3d(partial=True).factor_space
    assert space is not None
    assert space.table is not None
    np.testing.assert_array_equal(space.factors([0]), [[1, 1, 1, 1, 1, 2]])


def test_shapes3d_refuses_links_to_other_files_and_wrong_arrays(folder: Path, tmp_path: Path) -> None:
    import h5py

    path = folder / "3dshapes" / "3dshapes.h5"
    path.parent.mkdir()
    elsewhere = tmp_path / "elsewhere.h5"
    published.write_shapes3d(elsewhere)
    labels = np.zeros((2, 6))

    def written(**arrays: object) -> None:
        path.unlink(missing_ok=True)
        with h5py.File(path, "w") as file:
            for key, value in arrays.items():
                file[key] = value

    written(images=h5py.ExternalLink(str(elsewhere), "images"), labels=labels)
    with pytest.raises(DataError, match="or a link"):
        shapes3d(partial=True)
    written(images=np.zeros((2, 64, 64), dtype=np.uint8), labels=labels)
    with pytest.raises(DataError, match=r"bytes \(n, 64, 64, 3\)"):
        shapes3d(partial=True)
    written(images=np.zeros((2, 64, 64, 3), dtype=np.uint8), labels=labels * np.nan)
    with pytest.raises(DataError, match="finite labels"):
        shapes3d(partial=True)
    written(labels=labels)
    with pytest.raises(DataError, match=r"'images'.*none"):
        shapes3d(partial=True)
    with h5py.File(path, "w") as file:
        file["labels"] = labels
        secret = [(str(elsewhere), 0, 2 * 64 * 64 * 3)]
        file.create_dataset("images", (2, 64, 64, 3), np.uint8, external=secret)
    with pytest.raises(DataError, match="reference to other files"):
        shapes3d(partial=True)
    for content in (b"", b"not HDF5", elsewhere.read_bytes()[:3000]):
        path.write_bytes(content)
        with pytest.raises(DataError, match=r"3dshapes\.h5"):
            shapes3d(partial=True)


@pytest.mark.parametrize("zipped", [True, False])
def test_celeba_attributes_are_factors(folder: Path, zipped: bool) -> None:
    published.write_celeba(folder, zipped=zipped)
    dataset = celeba(partial=True)
    assert dataset.shape == (3, 64, 64)
    space = dataset.factor_space
    assert space is not None
    assert (space.names, space.sizes) == (("Smiling", "Young", "Male"), (2, 2, 2))
    np.testing.assert_array_equal(space.factors(slice(None)), [[0, 1, 1], [1, 1, 0], [1, 0, 0]])
    means = dataset.images[:].mean(axis=(2, 3))
    np.testing.assert_allclose(means, np.eye(3), atol=0.02)
    with pytest.raises(DataError, match="202599 of celeba"):
        celeba()


def test_celeba_has_the_parts_of_its_publisher(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = {name: part.stop - part.start for name, part in CELEBA_SPLITS.items()}
    assert sizes == {"train": 162_770, "validation": 19_867, "test": 19_962}
    assert sum(sizes.values()) == 202_599
    published.write_celeba(folder)
    with pytest.raises(DataError, match="every picture of celeba for its split 'test'"):
        celeba(split="test", partial=True)
    monkeypatch.setattr("polarised.data.published.CELEBA_PICTURES", 3)
    monkeypatch.setitem(CELEBA_SPLITS, "validation", slice(1, 3))
    part = celeba(split="validation")
    assert len(part) == 2
    assert part.factor_space is not None
    np.testing.assert_array_equal(part.factor_space.factors(slice(None)), [[1, 1, 0], [1, 0, 0]])
    np.testing.assert_allclose(part.images[:].mean(axis=(2, 3)), np.eye(3)[1:], atol=0.02)


def test_celeba_crops_the_centre(folder: Path) -> None:
    published.write_celeba(folder, zipped=False)
    picture = np.zeros((218, 178, 3), dtype=np.uint8)
    picture[35:183, 15:163] = 255
    Image.fromarray(picture).save(folder / "celeba" / "img_align_celeba" / "000001.jpg", quality=100)
    assert celeba(partial=True).images[0].mean() > 0.98
    assert celeba(partial=True, crop=178).images[0].mean() < 0.75


def test_celeba_refusals(folder: Path) -> None:
    published.write_celeba(folder)
    place = folder / "celeba"
    attributes = place / "list_attr_celeba.txt"
    good = attributes.read_text()
    for bad in (
        good.replace("3\n", "4\n", 1),
        good.replace("-1", "7", 1),
        good.replace("000002.jpg", "000001.jpg"),
        good.replace("000001.jpg", "../01.jpg"),
        good.replace("Male", ""),
        "",
        "x",
    ):
        attributes.write_text(bad)
        with pytest.raises(DataError, match=r"list_attr_celeba\.txt"):
            celeba(partial=True)
    attributes.write_text(good.replace("000003.jpg", "000004.jpg"))
    with pytest.raises(DataError, match=r"the picture 000004\.jpg"):
        celeba(partial=True)
    attributes.write_text(good.replace("3\n", "2\n", 1).replace("000003.jpg  1 -1 -1\n", ""))
    with pytest.raises(DataError, match="the picture of each attribute and no more"):
        celeba(partial=True)


def test_celeba_folder_without_attributes_or_with_a_broken_picture(folder: Path) -> None:
    published.write_celeba(folder, zipped=False)
    place = folder / "celeba"
    (place / "img_align_celeba" / "000002.jpg").write_bytes(published.jpeg((1, 2, 3))[:100])
    with pytest.raises(DataError, match=r"a picture .* in .*000002\.jpg"):
        celeba(partial=True)
    (place / "list_attr_celeba.txt").unlink()
    with pytest.raises(DownloadError, match=r"list_attr_celeba\.txt"):
        celeba(partial=True)


@pytest.mark.parametrize("load", [smallnorb, cars3d, shapes3d, celeba])
def test_absent_files_are_reported_with_their_folder(
    folder: Path, load: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_network(*_: object, **__: object) -> None:
        raise OSError("no network")

    monkeypatch.setattr("urllib.request.urlopen", no_network)
    with pytest.raises(DownloadError, match=r"expected the file .* not on this machine.* put it into"):
        load()  # type: ignore[operator]
