"""Write the pages of the gallery, and the picture of one for README, from published models and results.

git clone https://github.com/YannDubs/disentangling-vae
python docs/gallery/make.py disentangling-vae/results
"""

import sys
from pathlib import Path

import polarised as po
from polarised.report import write, write_report

DOCS = Path(__file__).parents[1]
PAGES = Path(__file__).parent / "pages"
COMPARED = ("VAE_dsprites", "betaH_dsprites", "betaB_dsprites", "btcvae_dsprites")


def main(models: Path) -> None:
    """Write every page, then take the picture."""
    PAGES.mkdir(exist_ok=True)
    found = {name: po.diagnose(models / name, name=name) for name in COMPARED}
    found["btcvae_dsprites"].report(PAGES / "btcvae_dsprites.html")
    write_report(list(found.values()), PAGES / "comparison.html")
    write([DOCS / "results" / "rtc_vae" / "results.parquet"], PAGES / "rtc_vae.html")
    picture(PAGES / "btcvae_dsprites.html", DOCS / "figures" / "page.png")


def picture(page: Path, out: Path) -> None:
    """Take a picture of the top of a page with the system's Chromium."""
    import shutil

    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as play:
        browser = play.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        shown = browser.new_page(viewport={"width": 1200, "height": 640}, device_scale_factor=1.25)
        shown.goto(page.resolve().as_uri())
        shown.wait_for_timeout(1000)
        shown.screenshot(path=str(out))
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
