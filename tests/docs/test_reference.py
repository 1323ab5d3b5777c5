import runpy
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "reference"


def test_the_page_of_what_machines_read_is_made_from_the_schemas():
    made = runpy.run_path(str(FOLDER / "build.py"))["json_reference"]()
    assert (FOLDER / "json.md").read_text() == made, "run python docs/reference/build.py"
    assert "## polarised.diagnosis/1" in made
