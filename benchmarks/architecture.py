"""Measures of the code base: files, lines, documented parameters, and the files on two paths through the code.

python benchmarks/architecture.py prints one table; nothing in it is timed.
"""

import contextlib
import importlib
import inspect
import io
import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polarised

PACKAGE = Path(polarised.__file__).parent
NAMED = re.compile(r"^\s+\*{0,2}(\w+)(?: \([^)]*\))?:", flags=re.MULTILINE)
MODULES = ("adapters", "data", "metrics", "models", "objectives", "registry", "report", "study", "theory", "training")


def public_callables() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Yield every public function, class and public method once, by its full name."""
    seen: set[int] = set()
    homes = [("polarised", polarised), *((f"polarised.{name}", getattr(polarised, name)) for name in MODULES)]
    for home, module in homes:
        for name in module.__all__:
            entry = getattr(module, name)
            if not callable(entry) or inspect.ismodule(entry) or id(entry) in seen:
                continue
            seen.add(id(entry))
            yield f"{home}.{name}", entry
            if inspect.isclass(entry):
                for method, function in vars(entry).items():
                    own = function.__func__ if isinstance(function, classmethod | staticmethod) else function
                    if method[0] != "_" and inspect.isfunction(own):
                        yield f"{home}.{name}.{method}", own


def undocumented(entry: Callable[..., Any]) -> tuple[list[str], list[str]]:
    """Return the parameters of a callable, and those that its docstring does not name under ``Args``."""
    try:
        given = inspect.signature(entry).parameters
    except (TypeError, ValueError):
        return [], []
    parameters = [name for name in given if name not in ("self", "cls", "args", "kwargs")]
    text = inspect.getdoc(entry) or ""
    if inspect.isclass(entry):
        text += "\n" + (inspect.getdoc(entry.__init__) or "")
    sections = re.findall(r"^Args:\n((?:[ \t]+.*\n?|\n)*)", text, flags=re.MULTILINE)
    named = {name for part in sections for name in NAMED.findall(part)}
    return parameters, [name for name in parameters if name not in named]


def parameters() -> tuple[int, int, list[str]]:
    """Return the number of public parameters, the number of documented ones, and the undocumented ones."""
    total, missing = 0, []
    for name, entry in public_callables():
        own, lacking = undocumented(entry)
        total += len(own)
        missing += [f"{name}({parameter})" for parameter in lacking]
    return total, total - len(missing), missing


class Walk:
    """Record the files of the package that are executed, and how often the execution changes between them."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.visits = 0
        self._last = ""

    def __call__(self, frame: Any, event: str, _argument: Any) -> None:
        """Record a call."""
        # The bodies of modules and classes run at import, whatever the path.
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
            file = frame.f_code.co_filename
            if file.startswith(str(PACKAGE)) and file != self._last:
                self.files.add(file)
                self.visits += 1
                self._last = file

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """Record the calls in the block."""
        sys.setprofile(self)
        try:
            yield
        finally:
            sys.setprofile(None)


def diagnosis_walk() -> dict[str, Any]:
    """Run ``polarised diagnose X.npz`` with screen and page, in this process."""
    import numpy as np
    from typer.testing import CliRunner

    app = importlib.import_module("polarised.cli").app
    folder = Path(tempfile.mkdtemp())
    draw = np.random.default_rng(0)
    np.savez(folder / "codes.npz", mean=draw.normal(size=(500, 4)), variance=np.full((500, 4), 0.02))
    walk = Walk()
    with contextlib.chdir(folder), walk.watching():
        result = CliRunner().invoke(app, ["diagnose", "codes.npz"])
    if result.exit_code:
        raise SystemExit(result.output)
    loaded = [name for name in sys.modules if name.split(".")[0] == "polarised"]
    study = sorted(name for name in loaded if name.startswith("polarised.study"))
    return {"files": len(walk.files), "modules": len(loaded), "study": study}


def image_walk() -> dict[str, Any]:
    """Follow an image from data to page: one small run, its diagnosis and its page."""
    from polarised.study import train

    folder = Path(tempfile.mkdtemp())
    config = {
        "dataset": {"name": "dsprites", "size": 32},
        "model": {"architecture": {"name": "mlp", "widths": [8]}, "latents": 3},
        "training": {"steps": 3, "batch_size": 8},
        "evaluation": {"examples": 200},
    }
    walk = Walk()
    with walk.watching():
        directory = train(config, out=folder, progress=False)
        polarised.diagnose(directory).report(folder / "page.html")
    return {"files": len(walk.files), "visits": walk.visits}


def main() -> None:
    """Print the table."""
    if sys.argv[1:] in (["diagnosis"], ["image"]):
        walk = diagnosis_walk if sys.argv[1] == "diagnosis" else image_walk
        with contextlib.redirect_stdout(io.StringIO()):
            found = walk()
        print(json.dumps(found))
        return
    # Each path in a separate process, so that imports of one are not counted for the other.
    walks = {
        name: json.loads(subprocess.check_output([sys.executable, __file__, name], text=True).splitlines()[-1])
        for name in ("diagnosis", "image")
    }
    lines = [len(path.read_text(encoding="utf-8").splitlines()) for path in PACKAGE.rglob("*.py")]
    total, explained, missing = parameters()
    rows = [
        ("Python files in the package", f"{len(lines)}"),
        ("median lines per file", f"{statistics.median(lines):.0f}"),
        ("public parameters documented under Args", f"{explained} of {total} ({explained / total:.0%})"),
        ("`polarised diagnose X.npz`: files on the path", f"{walks['diagnosis']['files']}"),
        ("`polarised diagnose X.npz`: modules imported", f"{walks['diagnosis']['modules']}"),
        ("`polarised diagnose X.npz`: modules of `study`", f"{len(walks['diagnosis']['study'])}"),
        ("an image from data to page: files", f"{walks['image']['files']}"),
        ("an image from data to page: visits", f"{walks['image']['visits']}"),
    ]
    for what, value in rows:
        print(f"| {what} | {value} |")
    if "--missing" in sys.argv:
        print(*missing, sep="\n")


if __name__ == "__main__":
    main()
