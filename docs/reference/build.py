"""Write docs/ledger.md from the published verdicts: python docs/reference/build.py (a test holds it to date)."""

from pathlib import Path

from polarised.study.claims.verify import ledger_page, published_under

if __name__ == "__main__":
    documentation = Path(__file__).parents[1]
    ledger = ledger_page(published_under(documentation / "results"))
    (documentation / "ledger.md").write_text(ledger, encoding="utf-8")
