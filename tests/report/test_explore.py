"""The server of the live page: only on this machine, nothing without the token, no files except its page."""

import json
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, RemoteDisconnected

import numpy as np
import pytest

from polarised.data import dsprites
from polarised.errors import DataError
from polarised.regime import Encodings, classify
from polarised.report.explore import Exploration, ExploreServer

torch = pytest.importorskip("torch", reason="exploring decodes; install polarised[train]")


def small_exploration() -> Exploration:
    from polarised.models import build_vae
    from polarised.models.encoding import Live, from_vae

    vae = build_vae({"architecture": {"name": "mlp", "widths": [16]}, "latents": 3}, shape=(1, 32, 32), seed=0)
    batch = dsprites(size=32).sample(40, 0)
    encodings = from_vae(vae, batch)
    return Exploration("<b>small</b>", Live(vae), batch, classify(encodings), np.asarray(encodings.mean, dtype=float))


@pytest.fixture(scope="module")
def server() -> Iterator[ExploreServer]:
    with ExploreServer(small_exploration()) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(server: ExploreServer, path: str, body: bytes | None = None, **headers: str) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", server.server_port, timeout=60)
    connection.request("GET" if body is None else "POST", path, body, headers)
    answer = connection.getresponse()
    content = answer.read()
    connection.close()
    return answer.status, content


def test_it_listens_on_this_machine_only(server: ExploreServer) -> None:
    assert server.server_address[0] == "127.0.0.1"
    assert len(server.token) >= 32
    assert server.address.startswith("http://127.0.0.1:")


def test_nothing_is_returned_without_the_token(server: ExploreServer) -> None:
    for path in (
        "/",
        "/page.html",
        "/x/",
        f"/{server.token[:-1]}/",
        f"/{server.token}",
        "/../../etc/passwd",
    ):
        assert ask(server, path) == (404, b"")
        assert ask(server, path, b'{"z": [0, 0, 0]}') == (404, b"")


def test_a_foreign_host_name_is_refused(server: ExploreServer) -> None:
    assert ask(server, f"/{server.token}/", Host="evil.example")[0] == 404
    assert ask(server, f"/{server.token}/", Host=f"localhost:{server.server_port}")[0] == 200


def test_no_file_can_be_requested(server: ExploreServer) -> None:
    for path in (
        "config.yaml",
        "../config.yaml",
        "inputs/../../config.yaml",
        "%2e%2e/config.yaml",
        "model.safetensors",
    ):
        assert ask(server, f"/{server.token}/{path}")[0] in (400, 404)


def test_codes_are_decoded_to_images(server: ExploreServer) -> None:
    status, first = ask(server, f"/{server.token}/decode", b'{"z": [0, 0.5, -1]}')
    assert (status, first[1:4]) == (200, b"PNG")
    assert ask(server, f"/{server.token}/decode", b'{"z": [3, 0.5, -1]}')[1] != first


@pytest.mark.parametrize(
    "body",
    [b"", b"nonsense", b"[]", b'{"z": [0, 1]}', b'{"z": ["a", 0, 0]}', b'{"z": [NaN, 0, 0]}', b'{"z": 3}',
     b'{"z": [true, 0, 0]}', b'{"z": [[0], 0, 0]}', b"[" * 30000, b'{"z": [1e999, 0, 0]}', b'{"z": [1e35, 0, 0]}',
     b'{"z": [1' + b"0" * 400 + b", 0, 0]}",
     b'{"z": [1' + b"0" * 5000 + b", 0, 0]}"],
)  # fmt: skip
def test_wrong_codes_are_refused_with_one_sentence(server: ExploreServer, body: bytes) -> None:
    status, answer = ask(server, f"/{server.token}/decode", body)
    assert status == 400
    assert answer.startswith(b"expected")


def test_a_page_of_another_origin_gets_no_answer(server: ExploreServer) -> None:
    path, body = f"/{server.token}/decode", b'{"z": [0, 0, 0]}'
    assert ask(server, path, body, Origin="http://evil.example")[0] == 404
    assert ask(server, path, body, Origin="null")[0] == 404
    assert ask(server, path, body, Origin=f"http://127.0.0.1:{server.server_port}")[0] == 200


def test_two_hundred_requests_at_once_are_all_answered(server: ExploreServer) -> None:
    with ThreadPoolExecutor(200) as everybody:
        start = threading.Barrier(200)

        def one(number: int) -> int:
            start.wait()
            return ask(server, f"/{server.token}/decode", f'{{"z": [{number / 100}, 0, 0]}}'.encode())[0]

        assert set(everybody.map(one, range(200))) == {200}


def test_a_request_with_a_very_long_number_is_answered(server: ExploreServer) -> None:
    assert ask(server, f"/{server.token}/inputs/{'9' * 5000}")[0] == 400


def test_a_large_body_is_refused_unread(server: ExploreServer) -> None:
    assert ask(server, f"/{server.token}/decode", b" " * 70_000)[0] == 413


def test_inputs_are_encoded(server: ExploreServer) -> None:
    status, answer = ask(server, f"/{server.token}/inputs/7")
    code = json.loads(answer)
    assert status == 200
    np.testing.assert_allclose(code["mean"], server.exploration.points[7], atol=1e-5)
    assert code["original"].startswith("data:image/png")
    for wrong in ("40", "-1", "x", ""):
        assert ask(server, f"/{server.token}/inputs/{wrong}")[0] == 400
    with pytest.raises(DataError, match="expected an input"):
        server.exploration.encoded("²")


def test_codes_are_drawn_from_the_prior(server: ExploreServer) -> None:
    codes = [json.loads(ask(server, f"/{server.token}/draws/7")[1])["z"] for _ in range(200)]
    assert np.shape(codes) == (200, 3)
    # Mean and variance of 600 standard normal numbers, within four standard errors.
    assert abs(np.mean(codes)) < 0.17
    assert abs(np.var(codes) - 1) < 0.24
    assert ask(server, f"/{server.token}/draws/40")[0] == 400
    assert "Draw from N(0, I)<" in server.exploration.page()


def test_codes_of_an_ivae_are_drawn_from_the_prior_of_the_input() -> None:
    from polarised.models import build_vae
    from polarised.models.encoding import Live, from_vae

    data = dsprites(size=32).with_auxiliary(factors=["shape"])
    network = {"name": "mlp", "widths": [16]}
    config = {"architecture": network, "latents": 3, "prior": {"name": "Conditional", "mean": "learned"}}
    vae = build_vae(config, data.shape, data.auxiliary_size)
    batch = data.sample(40, 0)
    encodings = from_vae(vae, batch)
    with torch.no_grad():
        vae.prior.mean_network[-1].weight.mul_(100)
        mean, variance = (each.numpy() for each in vae.prior.given(torch.from_numpy(batch.u)).moments(40))
    made = Exploration("iVAE", Live(vae), batch, classify(encodings), np.asarray(encodings.mean, dtype=float))
    first, last = (int(np.argmax(batch.u[:, 0] == u)) for u in (0, 1))
    assert np.abs(mean[first] - mean[last]).max() > 1
    for i in (first, last):
        codes = np.array([json.loads(made.drawn(str(i)))["z"] for _ in range(200)])
        error = np.sqrt(variance[i] / 200)
        assert (np.abs(codes.mean(axis=0) - mean[i]) < 4 * error).all()
        assert (np.abs(codes.var(axis=0) / variance[i] - 1) < 0.4).all()
    assert "Draw from p(z|u) of the input<" in made.page()


def test_names_stay_text_on_the_page(server: ExploreServer) -> None:
    status, page = ask(server, f"/{server.token}/")
    assert status == 200
    assert b"<b>small" not in page
    assert b"connect-src 'self'" in page


@pytest.mark.parametrize("asked", [b"GET /", b"GET /{token}/ HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n"])
def test_a_dropped_connection_prints_no_error(
    server: ExploreServer, asked: bytes, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    handled, met = threading.Event(), list[BaseException | None]()

    def handle(*connection: object) -> None:
        met.append(sys.exception())
        ExploreServer.handle_error(server, *connection)
        handled.set()

    monkeypatch.setattr(server, "handle_error", handle)
    # More than the buffers of a connection hold, so that writing the answer fails.
    monkeypatch.setattr(server, "page", b" " * (64 << 20))
    request = asked.replace(b"{token}", server.token.encode()).replace(b"{port}", str(server.server_port).encode())
    with socket.create_connection(("127.0.0.1", server.server_port)) as connection:
        connection.sendall(request)
        connection.recv(1) if request.endswith(b"\n") else time.sleep(0.1)
        # Close at once, so that the other side gets a reset.
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    assert handled.wait(60)
    assert isinstance(met[0], ConnectionError)
    assert capfd.readouterr().err == ""


def test_another_error_of_a_request_is_one_line(
    server: ExploreServer, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(server, "page", 3)
    with pytest.raises(RemoteDisconnected):
        ask(server, f"/{server.token}/")
    deadline = time.monotonic() + 60
    said = ""
    while "\n" not in said and time.monotonic() < deadline:
        said += capfd.readouterr().err
    assert said == "error: a request failed: TypeError: object of type 'int' has no len()\n"


def test_a_port_in_use_is_an_error(server: ExploreServer) -> None:
    with pytest.raises(DataError, match="free port"):
        ExploreServer(server.exploration, port=server.server_port)


class Foreign(torch.nn.Module):
    """A network that belongs to no library."""

    def __init__(self) -> None:
        super().__init__()
        self.into, self.out = torch.nn.Linear(64, 4), torch.nn.Linear(2, 64)

    def encode(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        mean, log_variance = self.into(x.flatten(1)).chunk(2, dim=1)
        return mean, log_variance - 2

    def decode(self, z: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.out(z)).reshape(-1, 1, 8, 8)


def noise_images() -> np.ndarray:
    images = np.random.default_rng(0).random((50, 1, 8, 8), dtype=np.float32)
    images.flat[:2] = 0.0, 1.0
    return images


def encoded(network: Foreign, images: np.ndarray) -> Encodings:
    with torch.inference_mode():
        mean, log_variance = network.encode(torch.from_numpy(images))
    return Encodings(mean.numpy(), log_variance=log_variance.numpy())


def test_a_model_with_a_prior_of_its_own_is_typed_by_it_and_drawn_from_it() -> None:
    from polarised.report.explore import explore_model

    torch.manual_seed(0)
    network, images = Foreign(), noise_images()
    prior = (np.array([5.0, -3.0]), np.array([0.01, 4.0]))
    made = explore_model(network, images, scale_kind="log_variance", prior=prior)
    with torch.inference_mode():
        mean, log_variance = (part.numpy() for part in network.encode(torch.from_numpy(images)))
    kl = 0.5 * ((np.exp(log_variance) + (mean - prior[0]) ** 2) / prior[1] - 1 - log_variance + np.log(prior[1]))
    np.testing.assert_allclose(made.regime.statistics.kl, kl.mean(0), rtol=1e-4)
    drawn = np.array([made.live.draw() for _ in range(4_000)])
    np.testing.assert_allclose(drawn.mean(0), prior[0], atol=0.15)
    np.testing.assert_allclose(drawn.var(0), prior[1], rtol=0.1)
    assert "Draw from p(z)" in made.page()
    assert "Draw from N(0, I)" in explore_model(network, images, scale_kind="log_variance").page()


def test_a_model_of_another_library_has_the_types_of_its_diagnosis() -> None:
    import polarised
    from polarised.report.explore import explore_model

    torch.manual_seed(0)
    network, images = Foreign(), noise_images()
    with torch.no_grad():
        network.into.weight *= 20
        network.out.weight[:, 1] = 0
    made = explore_model(network, images, scale_kind="log_variance")
    found = polarised.diagnose(network, images, scale_kind="log_variance").regime
    assert made.regime.types == found.types
    alone = classify(encoded(network, images)).types
    assert made.regime.types != alone, "the decoder does not read variable 1, which the encoder alone cannot show"


def test_the_page_says_that_types_are_those_of_the_encoder_alone() -> None:
    from polarised.report.explore import explore_model

    class Wide(Foreign):
        def __init__(self) -> None:
            super().__init__()
            self.into, self.out = torch.nn.Linear(64, 260), torch.nn.Linear(130, 64)

    torch.manual_seed(0)
    made = explore_model(Wide(), noise_images(), scale_kind="log_variance")
    assert "encoder alone, because the decoder was measured on 64 of the 130 variables" in made.page()
    assert "encoder alone" not in explore_model(Foreign(), noise_images(), scale_kind="log_variance").page()


def test_a_model_of_another_library_is_explored_through_its_decoder() -> None:
    from polarised.report.explore import explore_model

    torch.manual_seed(0)
    network, images = Foreign(), noise_images()
    before = {name: value.clone() for name, value in network.state_dict().items()}
    made = explore_model(network, images, scale_kind="log_variance", inputs=40)
    with torch.inference_mode():
        mean, _ = network.encode(torch.from_numpy(images[:40]))
        drawn = network.decode(torch.tensor([[0.5, -1.0]]))[0].numpy()
    np.testing.assert_allclose(made.points, mean.numpy(), atol=1e-5)
    np.testing.assert_allclose(made.live.decode([0.5, -1.0]), drawn, atol=1e-5)
    answer = json.loads(made.encoded("7"))
    np.testing.assert_allclose(answer["mean"], mean[7].numpy(), atol=1e-5)
    assert made.page().startswith("<!doctype html>")
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())
    with pytest.raises(DataError, match="2 finite numbers"):
        made.live.decode([0.5])
    with pytest.raises(DataError, match="decoder"):
        explore_model(network.encode, images, scale_kind="log_variance")
