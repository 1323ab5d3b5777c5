"""Downloads must match the published digest or that of the first download; everything else is refused."""

import gzip
import hashlib
import http.client
import io
import urllib.request
from email.message import Message
from pathlib import Path
from typing import Any

import pytest

from data.conftest import folder  # noqa: F401  (a fixture)
from polarised.data.cache import Source, find, obtain
from polarised.errors import DownloadError
from polarised.registry import records

GOOD, EVIL = b"the published bytes" * 100, b"what somebody on the way put there"
ADDRESS = "https://publisher.example/file.bin"


class Network:
    """Answers every address with `content`, as if it came from `final`."""

    def __init__(self) -> None:
        self.content, self.final, self.asked = GOOD, "", list[str]()

    def __call__(self, request: Any, timeout: float) -> Any:
        url = request if isinstance(request, str) else request.full_url
        self.asked.append(url)
        headers = Message()
        headers["Content-Length"] = str(len(self.content))
        return urllib.request.addinfourl(io.BytesIO(self.content), headers, self.final or url, http.client.OK)


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Network:
    answering = Network()
    monkeypatch.setattr(urllib.request, "urlopen", answering)
    return answering


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def test_the_first_copy_is_recorded_and_reported(folder: Path, network: Network) -> None:  # noqa: F811
    with pytest.warns(UserWarning, match=f"first copy is trusted; its SHA-256 {sha256(GOOD)} is recorded in"):
        path = obtain(Source("d/file.bin", (ADDRESS,)))
    assert path.read_bytes() == GOOD
    assert (folder / "d" / "file.bin.sha256").read_text() == f"{sha256(GOOD)}  file.bin\n"


def test_a_second_copy_that_differs_is_refused(folder: Path, network: Network) -> None:  # noqa: F811
    source = Source("d/file.bin", (ADDRESS,))
    with pytest.warns(UserWarning, match="recorded"):
        obtain(source).unlink()
    network.content = EVIL
    with pytest.raises(DownloadError, match=r"does not match its first download.*file\.bin\.sha256") as caught:
        obtain(source)
    assert "\n" not in str(caught.value)
    assert find(source.file) is None
    assert [file.name for file in (folder / "d").iterdir()] == ["file.bin.sha256"]
    # The same bytes are accepted again, without another message.
    network.content = GOOD
    assert obtain(source).read_bytes() == GOOD


@pytest.mark.parametrize("address", ["http://publisher.example/file.bin", "ftp://publisher.example/file.bin"])
def test_without_a_digest_only_https_is_used(folder: Path, network: Network, address: str) -> None:  # noqa: F811
    with pytest.raises(DownloadError, match="expected an https address"):
        obtain(Source("d/file.bin", (address,)))
    assert network.asked == []
    pinned = Source("d/file.bin", (address,), sha256=sha256(GOOD))
    assert obtain(pinned).read_bytes() == GOOD


def test_an_https_address_that_sends_on_to_http_is_refused(folder: Path, network: Network) -> None:  # noqa: F811
    network.final = "http://elsewhere.example/file.bin"
    with pytest.raises(DownloadError, match="expected an https address"):
        obtain(Source("d/file.bin", (ADDRESS,)))
    assert find("d/file.bin") is None


def test_a_mirror_may_compress_differently_but_not_send_other_content(
    folder: Path,  # noqa: F811
    network: Network,
) -> None:
    published = gzip.compress(GOOD, compresslevel=9, mtime=0)
    source = Source("d/file.gz", (ADDRESS,), sha256=sha256(published), content=f"md5:{hashlib.md5(GOOD).hexdigest()}")
    for hostile in (gzip.compress(EVIL), EVIL, GOOD, gzip.compress(GOOD)[:-9], b"\x1f\x8b", b""):
        network.content = hostile
        with pytest.raises(DownloadError, match="does not match the pinned digest"):
            obtain(source)
        assert find(source.file) is None
    network.content = gzip.compress(GOOD, compresslevel=1, mtime=5)
    assert gzip.decompress(obtain(source).read_bytes()) == GOOD


def test_every_published_file_is_pinned_or_comes_by_https() -> None:
    files = [(record.name, source) for record in records("dataset") for source in record.facts.get("sources", ())]
    assert len(files) > 15
    for name, source in files:
        assert source.pinned or name == "scream_dsprites", source.file
        assert source.pinned or all(url.startswith("https://") for url in source.urls)
        assert source.urls[:1] == () or source.urls[0].startswith("https://")
        algorithm, _, value = (source.content or source.digest or "md5:" + "0" * 32).partition(":")
        assert len(value) == 2 * hashlib.new(algorithm).digest_size
