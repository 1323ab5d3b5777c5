"""Untrusted images: only image formats are read, recognised by content, and none larger than memory allows."""

import io
import os
import re
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
from PIL import EpsImagePlugin, Image

import polarised
from polarised._io import limits
from polarised.data import from_folder, own
from polarised.data.own import MOST_PIXELS, open_picture, picture, thumbnail
from polarised.errors import ConfigError, DataError

EPS = b"""%!PS-Adobe-3.0 EPSF-3.0
%%BoundingBox: 0 0 16 16
%%EndComments
0 0 16 16 rectfill
showpage
%%EOF
"""


def saved(kind: str) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (16, 16), "orange").save(buffer, format=kind)
    return buffer.getvalue()


def chunk(name: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))


def announced(width: int, height: int) -> bytes:
    """A PNG of a hundred bytes that claims many pixels."""
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def test_postscript_with_the_suffix_png_starts_no_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program, started = tmp_path / "bin" / "gs", tmp_path / "started"
    program.parent.mkdir()
    program.write_text(f"#!/bin/sh\ntouch {started}\nexit 1\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    monkeypatch.setattr(EpsImagePlugin, "gs_binary", None)
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    (pictures / "cat.png").write_bytes(EPS)
    with pytest.raises(DataError, match=r"a picture .* in .*cat\.png, got another format"):
        from_folder(path=str(pictures))
    # In this process too, which alone is sure to have that path.
    with pytest.raises(DataError, match="got another format"):
        open_picture(pictures / "cat.png", pictures / "cat.png", mode="RGB")
    assert not started.exists()


@pytest.mark.parametrize("kind", ["GIF", "ICO", "PPM", "TGA", "PCX", "SGI", "DDS", "SPIDER", "PDF"])
def test_other_formats_are_refused_whatever_their_names(tmp_path: Path, kind: str) -> None:
    if kind == "SPIDER":
        buffer = io.BytesIO()
        Image.new("F", (16, 16)).save(buffer, format=kind)
        content = buffer.getvalue()
    else:
        content = saved(kind)
    (tmp_path / "cat.jpg").write_bytes(content)
    with pytest.raises(DataError, match=r"PNG, JPEG, WebP, BMP or TIFF.*cat\.jpg") as caught:
        from_folder(path=str(tmp_path))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP", "TIFF"])
def test_image_formats_are_recognised_by_content(kind: str) -> None:
    image = open_picture(saved(kind), Path("cat.eps"), mode="RGB")
    assert image.size == (16, 16)
    assert max(abs(a - b) for a, b in zip(image.getpixel((8, 8)), (255, 165, 0), strict=True)) < 8


@pytest.mark.parametrize("limit", [None, 1 << 40])
def test_a_bomb_is_refused_even_without_the_limit_of_pillow(monkeypatch: pytest.MonkeyPatch, limit: int | None) -> None:
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
    with pytest.raises(DataError, match=rf"at most {MOST_PIXELS:,} pixels in cat\.png, got a larger one"):
        open_picture(announced(40_000, 40_000), Path("cat.png"), mode="L")


@pytest.mark.parametrize("side", [10_000, 40_000])
def test_a_bomb_is_refused_with_one_sentence(side: int) -> None:
    with pytest.raises(DataError, match="got a larger one"):
        open_picture(announced(side, side), Path("cat.png"), mode="L")


def test_pillow_opens_files_in_one_place_only() -> None:
    home = Path(polarised.__file__).parent
    opening = {
        path.relative_to(home).as_posix()
        for path in home.rglob("*.py")
        if re.search(r"Image\.open\(|\bimread\(|image\.imread", path.read_text(encoding="utf-8"))
    }
    assert opening == {"data/own.py"}


def written(path: Path, image: Image.Image, **options: object) -> Path:
    image.save(path, **options)
    return path


def test_a_small_file_is_no_large_picture(tmp_path: Path) -> None:
    path = written(tmp_path / "dots.png", Image.new("1", (9_000, 9_000)))
    assert path.stat().st_size < 20_000
    with pytest.raises(DataError, match=r"of at most 2\d,\d{3},\d{3} pixels in .*dots\.png, got a larger one"):
        picture(path, path, size=16, channels=3)
    with pytest.raises(DataError, match=r"of at most 2\d,\d{3},\d{3} pixels in dots\.png, got a larger one"):
        picture(path.read_bytes(), Path("dots.png"), size=16, channels=3)
    with pytest.raises(DataError, match="got a larger one"):
        thumbnail(path, width=16, height=16)


def test_a_picture_that_takes_minutes_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "slow.jpg", Image.new("L", (2_000, 2_000), 128), progressive=True)
    content = path.read_bytes()
    # The last scan again and again: each goes over the whole picture.
    scan = content[content.rfind(b"\xff\xda") : -2]
    path.write_bytes(content[:-2] + scan * 100_000 + content[-2:])
    monkeypatch.setattr(limits, "SECONDS", 1.0)
    with pytest.raises(DataError, match=r"slow\.jpg, but reading it takes longer than \d+ s"):
        picture(path, path, size=16, channels=1)


@pytest.mark.parametrize("source", ["file", "bytes"])
def test_pictures_of_others_are_opened_in_another_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    path = written(tmp_path / "cat.png", Image.new("RGB", (32, 32), (255, 165, 0)))
    monkeypatch.setattr(own, "open_picture", None)
    shown = picture(path if source == "file" else path.read_bytes(), path, size=8, channels=3)
    np.testing.assert_array_equal(shown, np.broadcast_to(np.array([255, 165, 0], np.uint8)[:, None, None], (3, 8, 8)))
    np.testing.assert_allclose(thumbnail(path, width=16, height=16)[:, 0, 0], [1.0, 165 / 255, 0.0], rtol=1e-6)


@pytest.mark.parametrize("crop", [0, -5])
def test_a_square_of_no_pixels_cannot_be_cut_out(tmp_path: Path, crop: int) -> None:
    written(tmp_path / "cat.png", Image.new("RGB", (32, 32)))
    with pytest.raises(ConfigError, match=f"expected crop of 1 or more, got {crop}"):
        from_folder(path=str(tmp_path), crop=crop)
