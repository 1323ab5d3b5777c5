import runpy
from pathlib import Path

DOCS = Path(__file__).parents[2] / "docs"


def test_the_page_of_what_machines_read_is_made_from_the_schemas():
    made = runpy.run_path(str(DOCS / "_site" / "schemas_page.py"))["json_reference"]()
    assert (DOCS / "reference" / "json.md").read_text() == made, "run python docs/_site/schemas_page.py"
    assert "## polarised.diagnosis/1" in made
