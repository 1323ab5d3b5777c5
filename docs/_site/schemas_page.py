"""The page of what machines read, docs/reference/json.md, from the schemas; run this file to write it."""

import inspect
from pathlib import Path

from polarised import schemas


def json_reference() -> str:
    """The page of what machines read."""
    about = inspect.getdoc(schemas) or ""
    lines = ["# JSON", "", "Made by `python docs/_site/schemas_page.py`.", "", *about.splitlines()[2:], ""]
    lines += [
        "`polarised.schemas.json_schema(name)` gives each as JSON Schema, `polarised.schemas.validate(result)` checks",
        "a result against the one it names. Fields marked * are there only in some results.",
    ]
    for name, (version, told, fields) in schemas.SCHEMAS.items():
        lines += ["", f"## polarised.{name}/{version}", "", told, "", "| field | type | what it is |", "|---|---|---|"]
        lines += [f"| `schema` | string | `polarised.{name}/{version}` |"]
        given = schemas.json_schema(name)["properties"]
        for field, each in fields.items():
            star, words = "*" if each.optional else "", each.about.replace("|", "\\|")
            lines.append(f"| `{field}`{star} | {_type(given[field])} | {words} |")
    return "\n".join(lines) + "\n"


def _type(given: dict[str, object]) -> str:
    """A JSON Schema's type in words."""
    if "anyOf" in given:
        words = dict.fromkeys(_type(each) for each in given["anyOf"])  # type: ignore[attr-defined]
        return " or ".join(words)
    if "enum" in given or "const" in given:
        values = given.get("enum") or [given["const"]]
        return ", ".join(f'`"{value}"`' for value in values)  # type: ignore[attr-defined]
    kind = str(given.get("type", "anything"))
    if kind == "array" and "prefixItems" in given:
        return "pair"
    if kind == "array":
        return f"list of {_type(given.get('items', {}))}"  # type: ignore[arg-type]
    return kind


if __name__ == "__main__":
    page = Path(__file__).parents[1] / "reference" / "json.md"
    page.write_text(json_reference(), encoding="utf-8")
