"""`polarised explore` as a user runs it: a process, a browser, live sliders, Ctrl-C."""

import os
import re
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from polarised.data import dsprites
from report.browser import open_browser
from report.test_explore import small_exploration

pytest.importorskip("torch", reason="exploring decodes; install polarised[train]")

PROGRAM = """
import typer
from polarised.cli.look import explore
app = typer.Typer(pretty_exceptions_enable=False)
app.command()(explore)
app()
"""


def test_sliders_decode_and_points_encode() -> None:
    from polarised.report.explore import ExploreServer

    with open_browser() as visit, ExploreServer(small_exploration()) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            with visit(server.address, own=(server.address,)) as page:
                wait_for_drawing(page, 1)
                first = pixels(page)
                page.locator("#dials input").first.focus()
                before = page.locator("#dials input").first.input_value()
                page.keyboard.press("End")
                wait_for_drawing(page, 2)
                assert page.locator("#dials input").first.input_value() != before
                assert pixels(page) != first
                assert page.locator("#dials input").count() == 3
                with page.expect_response(re.compile("inputs/")) as asked:
                    page.locator("#cloud circle").nth(5).click(force=True)
                assert asked.value.ok
                until(page, "document.querySelector('#input-index').value !== '0'")
                assert page.locator("#original").get_attribute("src").startswith("data:image/png")
                page.locator("#cloud svg").focus()
                page.keyboard.press("ArrowRight")
                with page.expect_response(re.compile("inputs/0$")) as asked:
                    page.keyboard.press("Enter")
                assert asked.value.ok
                until(page, "document.querySelector('#input-index').value === '0'")
                page.locator("#zero").click()
                assert set(page.locator(".dial output").all_text_contents()) == {"0"}
        finally:
            server.shutdown()
            thread.join()


def test_it_stops_cleanly_on_control_c(tmp_path: Path) -> None:
    from polarised.models import build_vae, save_vae

    config = {"architecture": {"name": "mlp", "widths": [16]}, "latents": 3}
    save_vae(build_vae(config, shape=(1, 32, 32)), tmp_path / "model.safetensors", config=config)
    frames = tmp_path / "frames.npz"
    np.savez(frames, images=dsprites(size=32).images[np.arange(0, 700000, 20000)])
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "model.safetensors"), "--data", str(frames), "--no-browse"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert "http://127.0.0.1:" in line, line + process.stdout.read()
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=20)[0]
        assert process.returncode == 0
        assert rest.strip() == "Stopped."
    finally:
        process.kill()


def wait_for_drawing(page: Any, count: int) -> None:
    until(page, f"Number(document.querySelector('#decoded').dataset.count || 0) >= {count}")


def until(page: Any, condition: str) -> None:
    """Poll, because the content security policy forbids the wait function of playwright."""
    for _ in range(400):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(50)
    raise AssertionError(condition)


def pixels(page: Any) -> str:
    script = """() => {
      const image = document.querySelector('#decoded'), canvas = document.createElement('canvas');
      canvas.width = image.naturalWidth; canvas.height = image.naturalHeight;
      canvas.getContext('2d').drawImage(image, 0, 0);
      return canvas.toDataURL();
    }"""
    return str(page.evaluate(script))
