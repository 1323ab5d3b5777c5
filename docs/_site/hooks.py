"""What MkDocs does beyond its settings: pages made from the code, the order of pages, citations that lead somewhere."""

import posixpath
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element

from markdown import Markdown
from markdown.extensions import Extension
from markdown.inlinepatterns import InlineProcessor
from markdown.preprocessors import Preprocessor
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))
import pages

# Where the files of the project's root appear on the site.
ROOT_PAGES = {
    "CHANGELOG.md": "project/changelog.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "SECURITY.md": "project/security.md",
}
# Sections in their order, each with the pages that come first; what else lies in their folders follows by name.
SECTIONS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "Start": (("index.md", "start.md", "tutorial.md", "faq.md"), ("notebooks/",)),
    "How to": (("howto/diagnose_your_model.md",), ("howto/",)),
    "Understand": (("explanation/types.md", "explanation/metrics.md", "explanation/objectives.md"), ("explanation/",)),
    "Results": (("results/README.md", "ledger.md"), ("results/",)),
    "Gallery": (("gallery/README.md",), ("gallery/",)),
    "Reference": (
        (
            *(f"reference/api/{module}.md" for module in pages.MODULES),
            "reference/command_line.md",
            "reference/catalogue.md",
        ),
        ("reference/",),
    ),
    "Project": (("project/changelog.md", "project/contributing.md", "glossary.md"), ("project/", "")),
}

# Folders whose names people write otherwise.
NAMES = {
    "api": "Interface",
    "be_more_active": "Be More Active!",
    "nonlinear_ica": "Nonlinear ICA",
    "polarised_ivae": "Polarised iVAE",
    "rtc_vae": "RTC-VAE",
}


class _Citations(InlineProcessor):
    """`[Key, eq. 3]` as links to the bibliography, wherever it is written."""

    def handleMatch(self, m: re.Match[str], data: str) -> tuple[Element | None, int | None, int | None]:  # type: ignore[override] # noqa: N802
        parts = [part.strip() for part in m[1].split(";")]
        keys = [re.split(r"[, ]", part)[0] for part in parts]
        if not set(keys) <= set(pages.bibliography()):
            return None, None, None
        whole = Element("span", {"class": "citation"})
        whole.text = "["
        for i, (key, part) in enumerate(zip(keys, parts, strict=True)):
            link = Element("autoref", {"identifier": key})
            link.text = part
            link.tail = "]" if i == len(parts) - 1 else "; "
            whole.append(link)
        return whole, m.start(0), m.end(0)


class _Examples(Preprocessor):
    """Doctest examples and `::` blocks of docstrings as fenced code."""

    def run(self, lines: list[str]) -> list[str]:
        return pages.fenced("\n".join(lines)).split("\n")


class _House(Extension):
    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802
        # Before fences are read (25), and before links are (170) but after code is (190).
        md.preprocessors.register(_Examples(md), "examples", 35)
        md.inlinePatterns.register(_Citations(pages.CITATION.pattern, md), "citations", 175)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Teach Markdown the house's citations and examples."""
    config.markdown_extensions.append(_House())  # type: ignore[arg-type]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages made from the code, then put all pages in order."""
    for path, content in generated():
        files.append(File.generated(config, path, content=content))
    config.nav = ordered([file.src_uri for file in files.documentation_pages()])  # type: ignore[assignment]
    return files


def generated() -> Iterator[tuple[str, str | bytes]]:
    """Paths and contents of all pages that no file of `docs` holds."""
    yield from pages.interface()
    yield "reference/catalogue.md", pages.catalogue()
    yield "reference/command_line.md", pages.command_line()
    yield "reference/bibliography.md", pages.references()
    for name, path in ROOT_PAGES.items():
        yield path, (pages.ROOT / name).read_text(encoding="utf-8")
    yield "glossary.md", pages.glossary()
    for path in sorted((pages.ROOT / "docs" / "notebooks").glob("*.ipynb")):
        text, pictures = pages.notebook(path)
        yield f"notebooks/{path.stem}.md", text
        yield from ((f"notebooks/{name}", picture) for name, picture in pictures.items())


def ordered(paths: list[str]) -> list[dict[str, Any]]:
    """The navigation: every page in the first section that has its folder."""
    left = sorted(
        paths, key=lambda path: (path.count("/"), posixpath.dirname(path), not path.endswith("README.md"), path)
    )
    nav: list[dict[str, Any]] = []
    for title, (first, folders) in SECTIONS.items():
        mine = [path for path in first if path in left]
        named = {path for section, _ in SECTIONS.values() for path in section}
        mine += [path for path in left if path not in named and any(inside(path, folder) for folder in folders)]
        left = [path for path in left if path not in mine]
        nav.append({title: nested(mine)})
    return nav


def inside(path: str, folder: str) -> bool:
    """Whether a page lies in a folder; the empty name is the root alone."""
    return path.startswith(folder) if folder else "/" not in path


def nested(paths: list[str]) -> list[Any]:
    """Pages of one folder of several under its name, the others one by one."""
    entries: list[Any] = []
    groups: dict[str, list[str]] = {}
    for path in paths:
        parts = path.split("/")
        deep = "/".join(parts[:2]) if len(parts) > 2 else ""
        if not deep:
            entries.append(path)
            continue
        if deep not in groups:
            groups[deep] = []
            entries.append({title_of(parts[1]): groups[deep]})
        groups[deep].append(path)
    return entries


def title_of(folder: str) -> str:
    """A folder's name as people read it."""
    return NAMES.get(folder, folder.replace("_", " ").capitalize())


def on_post_build(config: MkDocsConfig) -> None:
    """Refuse a site that lacks a public name, leaves a citation without a work, or asks another server for anything."""
    site = Path(config.site_dir)
    faults = [fault for page in site.rglob("*.html") for fault in pages.faults(page, site)]
    faults += [f"no page shows {name}" for name in pages.undocumented(site)]
    if faults:
        raise PluginError("\n".join(faults))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Lead links to the files of the root to where they appear on the site."""
    here = posixpath.dirname(page.file.src_uri)

    def lead(found: re.Match[str]) -> str:
        target, _, anchor = found[2].partition("#")
        source = next((name for name, path in ROOT_PAGES.items() if path == page.file.src_uri), None)
        # What the root's own files link to is relative to the root, not to where they appear.
        path = posixpath.normpath(target if source else posixpath.join("docs", here, target))
        place = ROOT_PAGES.get(path, path.removeprefix("docs/") if path.startswith("docs/") else None)
        if place is None:
            return f"`{path}`" if source or path.startswith("..") or not path.startswith("docs") else found[0]
        return f"[{found[1]}]({posixpath.relpath(place, here or '.')}{'#' + anchor if anchor else ''})"

    return re.sub(r"(?<!!)\[([^\[\]]*)\]\((?!https?:|#|mailto:)([^()\s]+)\)", lead, markdown)
