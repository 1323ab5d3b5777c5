"""A local page with live sliders: move z and see the image, click a data point and see its code.

The server listens on 127.0.0.1 only, answers only under a random token, and reads no file once it has started.
"""

import functools
import json
import secrets
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from polarised._io import plain
from polarised._io.text import parse_json
from polarised.diagnosis import diagnose
from polarised.errors import DataError, PolarisedError, printable
from polarised.random import stream
from polarised.regime import Encodings, classify
from polarised.regime.encodings import as_table, from_table
from polarised.report.page import rendered
from polarised.report.theme import png, strip

if TYPE_CHECKING:
    from polarised.adapters.arrays import ScaleKind
    from polarised.adapters.decoding import Decoder, Remembered
    from polarised.data import Batch, Dataset
    from polarised.regime import Regime
    from polarised.regime.encodings import Axis

__all__ = ["CellExploration", "Exploration", "ExploreServer", "explore_model", "open_exploration"]

LONGEST_BODY = 1 << 16
LARGEST_NUMBER = 1e30
MOST_SLIDERS = 64
MOST_GENES = 20
SCRIPTS = ("core.js", "shell.js", "explore.js")


@dataclass(frozen=True, eq=False)
class Exploration:
    """A model to explore and its inputs.

    Args:
        name: The name of the model.
        live: The model, which encodes and decodes on request.
        inputs: The images that can be selected; None if the inputs are not images.
        regime: The types of its variables.
        points: The mean codes of the inputs (n, d).
        note: An explanation of the sliders, if a slider moves more than one number.
    """

    name: str
    live: Any
    inputs: "Batch | None"
    regime: "Regime"
    points: Any
    note: str = ""

    @property
    def answers(self) -> str:
        """The media type of a decoded code."""
        return "image/png"

    def page(self) -> str:
        """Return the HTML of the page, which sends its requests to this server.

        Returns:
            The page.
        """
        statistics = self.regime.statistics
        order = np.argsort(-np.nan_to_num(statistics.kl, posinf=1e300), kind="stable")[:MOST_SLIDERS]
        data = {
            "name": self.name,
            "note": self.note,
            "shows": "picture" if self.answers == "image/png" else "genes",
            "latents": self.live.latents,
            "prior": self.live.prior,
            "variables": [
                {"variable": int(j), "type": self.regime.types[j], "kl": float(f"{statistics.kl[j]:.4g}")}
                for j in sorted(int(j) for j in order)
            ],
            "reach": [float(f"{reach:.3g}") for reach in np.maximum(3.0, np.abs(self.points).max(axis=0) * 1.1)],
            "points": [[float(f"{value:.3g}") for value in row] for row in self.points.tolist()],
        }
        return rendered(
            "explore.html", plain(data), title=self.name, scripts=SCRIPTS, images=" blob:", connect="'self'"
        )

    def decoded(self, body: bytes) -> bytes:
        """Return the PNG of a code sent as JSON ``{"z": [...]}``.

        Args:
            body: The body of the request.

        Returns:
            The bytes of the PNG.

        Raises:
            DataError: If the body is not such JSON.
        """
        return png(self.live.decode(self._code(body)))

    def encoded(self, index: str) -> bytes:
        """Return the code of one input with its image, as JSON.

        Args:
            index: The number of the input, as text.

        Returns:
            JSON: mean, variance, original.

        Raises:
            DataError: If there is no such input.
        """
        i = self._number(index)
        if self.inputs is None:
            raise DataError("expected images as inputs, but there are none")
        image, u = self.inputs.images[i], None if self.inputs.u is None else self.inputs.u[i]
        mean, variance = self.live.encode(image, u)
        answer = {"mean": mean.tolist(), "variance": variance.tolist(), "original": strip(image[None])}
        return json.dumps(plain(answer)).encode()

    def drawn(self, index: str) -> bytes:
        """Return a code drawn from the prior, which may depend on the auxiliary variables of an input, as JSON.

        Args:
            index: The number of the input, as text.

        Returns:
            JSON: z.

        Raises:
            DataError: If there is no such input.
        """
        i = self._number(index)
        u = None if self.inputs is None or self.inputs.u is None else self.inputs.u[i]
        return json.dumps(plain({"z": self.live.draw(u).tolist()})).encode()

    def _code(self, body: bytes) -> list[float]:
        asked = parse_json(body, where="the request")
        code = asked.get("z") if isinstance(asked, dict) else None
        if not isinstance(code, list) or not all(type(value) in (int, float) for value in code):
            raise DataError(f'expected JSON {{"z": [...]}} with a list of {self.live.latents} numbers')
        if any(abs(value) > LARGEST_NUMBER for value in code):
            raise DataError(f"expected numbers between -{LARGEST_NUMBER:g} and {LARGEST_NUMBER:g}, got larger ones")
        return code

    def _number(self, index: str) -> int:
        if not _is_count(index) or int(index) >= len(self.points):
            raise DataError(f"expected an input from 0 to {len(self.points) - 1}")
        return int(index)


@dataclass(frozen=True, eq=False)
class CellExploration(Exploration):
    """A model of cells to explore: a code is decoded to the genes whose expression it raises and lowers most.

    The change is relative to the encoded cell, with its own batch: log2((x + 1) / (y + 1)) of the counts per
    10,000 that the decoder returns for the code and for the cell's posterior mean.
    """

    live: "_Cells"

    @property
    def answers(self) -> str:
        """The media type of a decoded code."""
        return "application/json"

    def decoded(self, body: bytes) -> bytes:
        """Return the genes that a code sent as JSON ``{"z": [...], "input": 0}`` changes most, as JSON.

        Args:
            body: The body of the request.

        Returns:
            JSON: moved, and for each gene its name, the counts before and after, and the change.

        Raises:
            DataError: If the body is not such JSON, or there is no such cell.
        """
        code, asked = self._code(body), parse_json(body, where="the request")
        cell = self._number(str(asked.get("input") or 0))
        return json.dumps(plain(self.live.genes(code, cell))).encode()

    def encoded(self, index: str) -> bytes:
        """Return the code of one cell and its labels, as JSON.

        Args:
            index: The number of the cell, as text.

        Returns:
            JSON: mean, variance, about.

        Raises:
            DataError: If there is no such cell.
        """
        i = self._number(index)
        mean, variance = self.live.encode(i)
        about = self.live.about(i)
        return json.dumps(plain({"mean": mean.tolist(), "variance": variance.tolist(), "about": about})).encode()


def open_exploration(
    path: str | Path,
    *,
    data: str | None = None,
    pixel_range: tuple[float, float] | None = None,
    inputs: int = 600,
    seed: int = 0,
) -> Exploration:
    """Load a run, a published model or one saved by another library, and encode some of its inputs.

    Args:
        path: A run directory, a published model, or the folder of a model of pythae, diffusers or scvi-tools.
        data: The data to encode: a dataset's name, an .npz of images, a folder of images or the .h5ad of a model of
            scvi-tools; default: that of the run, or saved with the model.
        pixel_range: The pixel range a model of another library was trained on, if it is not known.
        inputs: The number of inputs to encode.
        seed: Seed for random choices.

    Returns:
        The exploration.

    Raises:
        DataError: If it is not a model of images, or its data are not known.
    """
    from polarised.adapters.targets import images_named, open_target
    from polarised.models.encoding import Live, decoder_use, from_vae

    target = open_target(path)
    if target.kind == "scvi":
        from polarised.adapters.scvi import load_scvi

        return replace(explore_model(*load_scvi(target.path, data), inputs=inputs, seed=seed), name=target.name)
    if target.kind in ("pythae", "diffusers"):
        shown = target.data() if data is None else data
        made = explore_model(target.model(), shown, pixel_range=pixel_range, inputs=inputs, seed=seed)
        return replace(made, name=target.name)
    vae = target.vae()
    if len(vae.shape) != 3:
        raise DataError(
            f"expected a model of images to explore, but the inputs of {path} are vectors {vae.shape}; use polarised "
            "report"
        )
    dataset = images_named(data) if data is not None else _own_data(target)
    batch = dataset.sample(min(inputs, len(dataset)), seed)
    encodings = from_vae(vae, batch)
    if target.kind == "run" and data is None and (target.path / "encodings.npz").is_file():
        # A measured run has one set of types, which every command shows.
        regime = diagnose(target.path).regime
    else:
        regime = classify(encodings, decoder=decoder_use(vae, batch, redraw=False, seed=seed), seed=seed)
    return Exploration(target.name, Live(vae), batch, regime, np.asarray(encodings.mean, dtype=float))


class _SharedPrior:
    """The draws of a model whose prior is the same normal distribution for all inputs."""

    latents: int
    prior_mean: NDArray[Any] | float = 0.0
    prior_variance: NDArray[Any] | float = 1.0

    @functools.cached_property
    def _numbers(self) -> np.random.Generator:
        return stream(0, "code of the prior")

    @property
    def prior(self) -> str:
        """The prior as a formula."""
        standard = np.all(np.equal(self.prior_mean, 0.0)) and np.all(np.equal(self.prior_variance, 1.0))
        return "N(0, I)" if standard else "p(z)"

    def draw(self, _u: Any = None) -> NDArray[Any]:
        """Return a code drawn from the prior, another one at every call."""
        noise = self._numbers.standard_normal(self.latents)
        drawn: NDArray[Any] = self.prior_mean + np.sqrt(self.prior_variance) * noise
        return drawn


class _AnyModel(_SharedPrior):
    """Any model behind the page: codes are decoded on request, inputs were encoded when the page was created.

    If a variable has positions, a slider is its average over them; the pattern around it is that of the input that
    was encoded last, at the start that of the first input.
    """

    def __init__(self, decoder: "Decoder", seen: "Remembered", images: NDArray[np.float32], axis: "Axis") -> None:
        self.decoder, self.seen, self.axis = decoder, seen, axis
        self.points, self.variances = (_averaged(part, axis) for part in (seen.mean, seen.variance))
        self.latents = int(self.points.shape[1])
        self.prior_mean, self.prior_variance = seen.prior_mean, seen.prior_variance
        self._place = {image.tobytes(): i for i, image in enumerate(images)}
        self._turn, self._last = threading.Lock(), 0

    def decode(self, code: ArrayLike) -> NDArray[np.float32]:
        """Return the image of a code (d,)."""
        z = np.asarray(code, dtype=np.float32)
        if z.shape != (self.latents,) or not np.isfinite(z).all():
            raise DataError(f"expected {self.latents} finite numbers, got shape {z.shape}")
        with self._turn:
            whole = self.seen.mean[self._last : self._last + 1]
            moved = as_table(whole, self.axis)[0] + (z - self.points[self._last])
            # Without positions, the row is the code itself, without rounding errors.
            codes = z[None] if len(moved) == 1 else from_table(moved, whole.shape[1:], self.axis)
            picture: NDArray[np.float32] = self.decoder.drawn(codes.astype(np.float32), self.seen.inputs)[0]
        return picture

    def encode(self, image: NDArray[Any], _u: Any = None) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return mean and variance of q(z|x) of one of the inputs."""
        i = self._place[np.ascontiguousarray(image).tobytes()]
        with self._turn:
            self._last = i
        return self.points[i], self.variances[i]


class _Cells(_SharedPrior):
    """A model of scvi-tools behind the page: a code is shown by the genes whose expression it changes most."""

    def __init__(self, model: Any, adata: Any, rows: NDArray[np.int64], encodings: Encodings) -> None:
        self.model, self.adata, self.rows = model, adata, rows
        self.points, self.variances = np.asarray(encodings.mean), np.asarray(encodings.variance)
        self.latents = encodings.latents
        self._turn = threading.Lock()

    def genes(self, code: ArrayLike, cell: int) -> dict[str, Any]:
        """Return the genes that a code (d,) raises and lowers most in a cell, or the most expressed if none changes."""
        from polarised.adapters.scvi import expression_of

        z = np.asarray(code, dtype=np.float32)
        if z.shape != (self.latents,) or not np.isfinite(z).all():
            raise DataError(f"expected {self.latents} finite numbers, got shape {z.shape}")
        with self._turn:
            both = expression_of(self.model, self.adata, int(self.rows[cell]), np.stack([self.points[cell], z]))
        before, after = both
        change = np.log2((after + 1) / (before + 1))
        moved = bool(np.abs(change).max() > 1e-3)
        order = np.argsort(-(change if moved else before), kind="stable")
        # Expression is a share: if a few genes rise much, all others fall, so both directions are shown.
        ends = np.r_[: MOST_GENES // 2, -(MOST_GENES // 2) : 0] if len(order) > MOST_GENES else slice(None)
        order = order[ends] if moved else order[:MOST_GENES]
        rows = [
            {"gene": str(self.adata.var_names[j]), "before": before[j], "after": after[j], "change": change[j]}
            for j in order
        ]
        rounded = [{k: float(f"{v:.4g}") if k != "gene" else v for k, v in row.items()} for row in rows]
        return {"moved": moved, "genes": rounded}

    def encode(self, cell: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return mean and variance of q(z|x) of one of the cells."""
        return self.points[cell], self.variances[cell]

    def about(self, cell: int) -> str:
        """Return the name of a cell and its labels."""
        row = self.adata.obs.iloc[int(self.rows[cell])]
        labels = self.adata.obs.select_dtypes(["category", "object"]).columns
        shown = [f"{name} {row[name]}" for name in labels if not str(name).startswith("_")][:3]
        return ", ".join([str(row.name), *shown])


def _explore_cells(model: Any, data: Any, inputs: int, seed: int) -> CellExploration:
    from polarised.adapters.scvi import from_scvi

    cells = model.adata if data is None else data
    encodings = from_scvi(model, data)
    rows = np.sort(stream(seed, "cells to explore").permutation(len(encodings))[:inputs])
    few = Encodings(encodings.mean[rows], variance=encodings.variance[rows])
    live = _Cells(model, cells, rows, few)
    note = "Expression is decoded, in counts per 10,000, and compared with the encoded cell."
    return CellExploration(type(model).__name__, live, None, classify(encodings), np.asarray(few.mean, float), note)


def _averaged(values: NDArray[Any], axis: "Axis") -> NDArray[Any]:
    """Return the average of latents (n, ...) over the positions of each variable, (n, d)."""
    table, repeats = as_table(values, axis)
    average: NDArray[Any] = table.reshape(len(values), repeats, table.shape[1]).mean(axis=1)
    return average


def explore_model(
    target: Any,
    data: Any,
    *,
    encode: Callable[..., Any] | None = None,
    decode: Callable[..., Any] | None = None,
    scale_kind: "ScaleKind | None" = None,
    prior: Any = None,
    pixel_range: tuple[float, float] | None = None,
    inputs: int = 600,
    seed: int = 0,
) -> Exploration:
    """Encode some inputs with any model, to explore its decoder: pythae, diffusers, scvi-tools, torch and more.

    If latents have positions, a slider moves the average of a variable over all of them. Cells are not drawn; instead,
    the genes whose expression changes most are shown.

    Args:
        target: The model, in any form that `polarised.diagnose` accepts.
        data: The images: an array, a loader, a dataset or its name; for scvi-tools AnnData, or None for the
            cells it was trained on.
        encode: A function that encodes, if the model's own is not found.
        decode: A function that decodes, if the model's own is not found.
        scale_kind: The meaning of the scale, if its name does not give it.
        prior: Mean and variance of the prior, or a distribution, the same for all inputs; default: the model's own.
        pixel_range: The pixel range the model was trained on, if it is not known.
        inputs: The number of inputs to encode.
        seed: Seed for random choices.

    Returns:
        The exploration, for `ExploreServer`.

    Raises:
        DataError: If it has no decoder, its codes are not one row of numbers per image, its prior depends on the input,
            or the data are not images.
    """
    from polarised.adapters.models import libraries_of, model_of

    if "scvi" in libraries_of(target):
        return _explore_cells(target, data, inputs, seed)
    from polarised.adapters.batches import batches_of
    from polarised.adapters.callables import Reading, encode_batches
    from polarised.adapters.decoding import Remembered, decoder_of, pictures_like
    from polarised.data import Batch
    from polarised.resolving import remembered_of

    model = model_of(target, encode=encode, decode=decode)
    batches = batches_of(data, batch_size=256, examples=inputs, size=model.image_size, seed=seed)
    reading = Reading(scale_kind=scale_kind, prior=prior, pixel_range=pixel_range)
    coded = encode_batches(model, batches, reading, named=batches.named, seed=seed)
    kept = [part for batch in coded for part in remembered_of(batch)]
    if model.decode is None or not kept:
        raise DataError(
            "expected a model with a decoder, one code per image and the same prior for all images, but "
            f"{model.name} is not one"
        )
    axis = None if kept[0].mean.ndim == 2 else model.axis
    joined = {part: np.concatenate([getattr(each, part) for each in kept]) for part in ("inputs", "mean", "variance")}
    seen = Remembered(**joined, prior_mean=kept[0].prior_mean, prior_variance=kept[0].prior_variance)
    decoder = decoder_of(model, seen, seed=seed)
    if decoder is None:
        raise DataError(f"expected a model with a decoder to explore, but {model.name} has none; give decode=")
    images = pictures_like(seen.inputs, seen.inputs)
    mean, positions = as_table(seen.mean, axis)
    encodings = Encodings(
        mean,
        variance=as_table(seen.variance, axis)[0],
        prior_mean=seen.prior_mean,
        prior_variance=seen.prior_variance,
        repeats=positions,
    )
    notes = []
    if positions > 1:
        notes.append(
            f"Each slider is the average of a variable over its {positions} positions; the pattern around it is that "
            "of the input that was encoded last."
        )
    used = None
    try:
        use, measured = decoder.use(seen, axis=axis, seed=seed)
        if len(measured) == encodings.latents:
            used = use
        else:
            few = f"{len(measured)} of the {encodings.latents:,} variables"
            notes.append(f"The types are those of the encoder alone, because the decoder was measured on {few}.")
    except PolarisedError as error:
        notes.append(f"The types are those of the encoder alone, because the decoder was not measured: {error}.")
    live, batch = _AnyModel(decoder, seen, images, axis), Batch(images, None, None, np.arange(len(images)))
    regime = classify(encodings, decoder=used, seed=seed)
    return Exploration(model.name, live, batch, regime, np.asarray(live.points, dtype=float), " ".join(notes))


class ExploreServer(ThreadingHTTPServer):
    """Serve one exploration on this machine until `serve_forever` is interrupted.

    Args:
        exploration: The exploration.
        port: The port; 0: any free port.

    Raises:
        DataError: If the port is in use or not allowed.
    """

    daemon_threads = True
    # Length of the queue of connections: a slider that moves quickly sends many requests.
    request_queue_size = 256

    def __init__(self, exploration: Exploration, *, port: int = 0) -> None:
        try:
            super().__init__(("127.0.0.1", port), _Handler)
        except OSError as error:
            raise DataError(
                f"expected a free port, but {port} is in use or not allowed ({error}); use 0 for any free port"
            ) from error
        self.exploration = exploration
        self.token = secrets.token_urlsafe(24)
        self.page = exploration.page().encode("utf-8")

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print the error of a request in one line; nothing if the page was closed before its answer.

        Args:
            request: The connection.
            client_address: The address of the client.
        """
        error = sys.exception()
        if not isinstance(error, ConnectionError | TimeoutError):
            print(f"error: a request failed: {printable(f'{type(error).__name__}: {error}')[:500]}", file=sys.stderr)

    @property
    def address(self) -> str:
        """The address to open in a browser on this machine."""
        return f"http://127.0.0.1:{self.server_port}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: ExploreServer
    server_version = "polarised"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        """Answer with the page, with the code of an input, or with one drawn from the prior."""
        asked = self._requested_path()
        if asked == "":
            self._answer(HTTPStatus.OK, "text/html; charset=utf-8", self.server.page)
        elif asked is not None and asked.startswith("inputs/"):
            self._attempt("application/json", lambda: self.server.exploration.encoded(asked.removeprefix("inputs/")))
        elif asked is not None and asked.startswith("draws/"):
            self._attempt("application/json", lambda: self.server.exploration.drawn(asked.removeprefix("draws/")))
        else:
            self._answer(HTTPStatus.NOT_FOUND)

    def do_POST(self) -> None:
        """Answer with the image of a code."""
        length = self.headers.get("Content-Length", "")
        if self._requested_path() != "decode":
            self._answer(HTTPStatus.NOT_FOUND)
        elif not (_is_count(length) and int(length) <= LONGEST_BODY):
            self._answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            body = self.rfile.read(int(length))
            self._attempt(self.server.exploration.answers, lambda: self.server.exploration.decoded(body))

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing, because every path contains the token."""

    def _requested_path(self) -> str | None:
        """Return the path after the token, or None if the token or the host is wrong."""
        # Another site can make a browser send requests to 127.0.0.1 under its own host name (DNS rebinding).
        if self.headers.get("Host") not in {f"{host}:{self.server.server_port}" for host in ("127.0.0.1", "localhost")}:
            return None
        # A page of another origin can send requests although it cannot read the answers; it gets none.
        origins = {None, *(f"http://{host}:{self.server.server_port}" for host in ("127.0.0.1", "localhost"))}
        if self.headers.get("Origin") not in origins:
            return None
        token, slash, rest = self.path.removeprefix("/").partition("/")
        known = secrets.compare_digest(token.encode(), self.server.token.encode())
        return rest if known and slash else None

    def _attempt(self, kind: str, make: Any) -> None:
        try:
            body = make()
        except DataError as error:
            self._answer(HTTPStatus.BAD_REQUEST, "text/plain; charset=utf-8", str(error).encode())
        # Without an answer, the page could not show what went wrong.
        except Exception as error:
            words = f"{type(error).__name__}: {error}"[:500]
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, "text/plain; charset=utf-8", words.encode())
        else:
            self._answer(HTTPStatus.OK, kind, body)

    def _answer(self, status: HTTPStatus, kind: str = "text/plain", body: bytes = b"") -> None:
        self.send_response(status)
        headers = {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            "X-Content-Type-Options": "nosniff",
            "X-Frame-Options": "DENY",
            "Referrer-Policy": "no-referrer",
        }
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


def _is_count(text: str) -> bool:
    """Return whether a text is a whole number of limited length; Python refuses to parse very long ones."""
    return text.isascii() and text.isdigit() and len(text) <= 12


def _own_data(target: Any) -> "Dataset":
    if target.kind != "run":
        dataset: Dataset = target.data()
        return dataset
    from polarised.study.stages import dataset_of, load_run

    return dataset_of(load_run(target.path))
