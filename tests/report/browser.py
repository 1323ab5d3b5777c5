"""A headless Chromium that records every error and every request of a page."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

Visit = AbstractContextManager[Any]
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@contextmanager
def open_browser() -> Iterator[Callable[..., Visit]]:
    """Yield a function that opens a file or an address; at the end of its block it checks that there were no errors."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright drives the browser; install polarised[dev]"
    )
    program = next((path for name in NAMES if (path := shutil.which(name))), None)
    if program is None:
        pytest.skip("no Chromium on this machine; .ci/chromium.sh installs it")
    with playwright.sync_playwright() as engine:
        browser = engine.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])

        @contextmanager
        def visit(address: Path | str, *, own: tuple[str, ...] = (), **look: Any) -> Iterator[Any]:
            context = browser.new_context(**{"viewport": {"width": 1280, "height": 900}, **look})
            page = context.new_page()
            errors: list[str] = []
            requests: list[str] = []
            page.on("console", lambda m: errors.append(m.text) if m.type in ("error", "warning") else None)
            page.on("pageerror", lambda error: errors.append(str(error)))
            page.on("request", lambda request: requests.append(request.url))
            start = address.as_uri() if isinstance(address, Path) else address
            page.goto(start)
            try:
                yield page
                allowed = ("data:", "blob:", *own)
                outside = [url for url in requests if url != start and not url.startswith(allowed)]
                assert not errors, errors
                assert not outside, outside
            finally:
                context.close()

        try:
            yield visit
        finally:
            browser.close()
