"""The renderer against real frames of dSprites and against published figures of the whole dataset."""

from pathlib import Path

import numpy as np
import pytest

from polarised.data import dsprites, sprites

PUBLISHED_LIT_PIXELS = 128_328_862
PUBLISHED_MEAN_STD = 0.19516645880626055


@pytest.fixture(scope="module")
def frames(reference: Path) -> dict[str, np.ndarray]:
    with np.load(reference / "oracles" / "dsprites_frames.npz", allow_pickle=False) as file:
        return {key: file[key] for key in file.files}


def test_frames_of_known_factors_have_no_differing_pixel(frames: dict[str, np.ndarray]) -> None:
    known = (frames["factors"] >= 0).all(axis=1)
    assert known.sum() == 270
    drawn = sprites.draw(sprites.SPACE.index(frames["factors"][known, 1:]))
    assert np.count_nonzero(drawn[:, 0] != frames["images"][known]) == 0


def test_every_real_frame_is_among_the_renderings(frames: dict[str, np.ndarray]) -> None:
    space = dsprites().factor_space
    assert space is not None
    images = dsprites().images[space.index(frames["factors_matched"][:, 1:])]
    assert np.count_nonzero(images[:, 0] != frames["images"]) == 0


def test_distinct_pictures_of_the_whole_dataset() -> None:
    """The sheet counts 715,706; a turn by the last orientation is none at all."""
    weights = np.random.default_rng(0).integers(1, 2**63, 64, dtype=np.uint64)
    digests = []
    for some in np.array_split(np.arange(len(sprites.SPACE)), 90):
        rows = sprites.rows(some)
        # Low bits are zero where a sprite is far to the right: spread the high ones before weighing.
        digests.append((rows ^ (rows >> np.uint64(29)) ^ (rows >> np.uint64(43))) @ weights)
    digests = np.concatenate(digests)
    assert len(np.unique(digests)) == 715_706
    by_orientation = digests.reshape(18, 40, 1024)
    np.testing.assert_array_equal(by_orientation[:, 0], by_orientation[:, 39])


def test_lit_pixels_of_the_whole_dataset() -> None:
    """The sheet's renderer gives 128,328,864, the published mean pixel 128,328,862."""
    lit, deviations = 0, 0.0
    for start in range(0, len(sprites.SPACE), 16_384):
        indices = np.arange(start, min(start + 16_384, len(sprites.SPACE)))
        counts = np.unpackbits(sprites.rows(indices).view(np.uint8), axis=1).sum(axis=1, dtype=np.int64)
        assert counts.min() >= 50
        assert counts.max() <= 400
        lit += int(counts.sum())
        mean = counts / 4096
        deviations += float(np.sqrt(mean * (1 - mean) * 4096 / 4095).sum())
    assert lit == 128_328_864
    assert lit - PUBLISHED_LIT_PIXELS == 2
    assert deviations / len(sprites.SPACE) == pytest.approx(PUBLISHED_MEAN_STD, abs=5e-9)
