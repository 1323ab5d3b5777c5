"""Archives in the format of disentanglement_lib, created here, and a local server for them."""

import json
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np

from adapters.test_tensor_bundle import bundle

SHAPES = {
    **{
        f"encoder/{name}": shape
        for name, shape in {
            "e1": (4, 4, 1, 32),
            "e2": (4, 4, 32, 32),
            "e3": (2, 2, 32, 64),
            "e4": (2, 2, 64, 64),
            "e5": (1024, 256),
            "means": (256, 10),
            "log_var": (256, 10),
        }.items()
    },
    **{
        f"decoder/{name}": shape
        for name, shape in {
            "dense": (10, 256),
            "dense_1": (256, 1024),
            "conv2d_transpose": (4, 4, 64, 64),
            "conv2d_transpose_1": (4, 4, 32, 64),
            "conv2d_transpose_2": (4, 4, 32, 32),
            "conv2d_transpose_3": (4, 4, 1, 32),
        }.items()
    },
}


def write_archive(path: Path, *, beta: float = 8.0, seed: int = 0, weights: int = 0) -> Path:
    """Write the zip of an untrained run of the published study, with its own scores."""
    generator = np.random.default_rng(weights)
    arrays: dict[str, Any] = {}
    for name, shape in SHAPES.items():
        out = shape[2] if "transpose" in name else shape[-1]
        arrays[f"{name}/kernel"] = (0.05 * generator.normal(size=shape)).astype("<f4")
        arrays[f"{name}/bias"] = np.zeros(out, dtype="<f4")
    home = f"{path.stem}/"
    config = {
        "model.name": "'beta_vae'",
        "vae.beta": str(beta),
        "dataset.name": "'dsprites_full'",
        "model.random_seed": str(seed),
        "model.training_steps": "300000",
        "model.batch_size": "64",
        "encoder.num_latent": "10",
    }
    results = f"{home}model/results/json/"
    metric = f"{home}metrics/mean/{{}}/results/json/evaluation_results.json"
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in bundle(arrays).items():
            archive.writestr(f"{home}model/tfhub/variables/{name}", content)
        archive.writestr(f"{results}train_config.json", json.dumps(config))
        archive.writestr(f"{results}train_results.json", json.dumps({"kl_loss": 1.5, "elapsed_time": 3.0}))
        archive.writestr(metric.format("mig"), json.dumps({"discrete_mig": 0.25, "uuid": "none"}))
        archive.writestr(
            metric.format("unsupervised"), json.dumps({"gaussian_total_correlation": 2.5, "something_else": 7.0})
        )
    return path


@contextmanager
def serving(folder: Path, *, cut: dict[str, int] | None = None) -> Iterator[tuple[str, list[str]]]:
    """Serve a folder on loopback; `cut` names files whose connection ends after so many bytes, once each.

    Yields:
        The address, and the requests that came as "name from byte".
    """
    left, asked = dict(cut or {}), []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.lstrip("/")
            file = folder / name
            if not file.is_file():
                self.send_error(404)
                return
            content = file.read_bytes()
            begin = int(self.headers.get("Range", "bytes=0-").removeprefix("bytes=").partition("-")[0])
            asked.append(f"{name} {begin}")
            self.send_response(206 if begin else 200)
            self.send_header("Content-Length", str(len(content) - begin))
            self.end_headers()
            end = left.pop(name, len(content))
            self.wfile.write(content[begin:end])

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}", asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
