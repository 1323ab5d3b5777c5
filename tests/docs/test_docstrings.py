"""Every public function says what it takes, what it returns and what it raises, in one form."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import polarised

PACKAGE = Path(polarised.__file__).parent
ROOMS = ("data", "models", "objectives", "theory")
FILES = [
    *(file for room in ROOMS for file in sorted((PACKAGE / room).rglob("*.py"))),
    *(PACKAGE / name for name in ("registry.py", "random.py", "errors.py", "cluster.py")),
]


def parameters(function: ast.FunctionDef, *, method: bool) -> list[str]:
    arguments = function.args
    several = [each for each in (arguments.vararg, arguments.kwarg) if each is not None]
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, *several]
    names = [each.arg for each in every]
    return [name for name in names if not (method and name in ("self", "cls"))]


def explained(text: str) -> set[str]:
    found = re.search(r"^Args:\n(.*?)(?=^\S|\Z)", text, flags=re.MULTILINE | re.DOTALL)
    return set(re.findall(r"^ {4}\*{0,2}(\w+):", found[1], flags=re.MULTILINE)) if found else set()


def fields(node: ast.ClassDef) -> list[str]:
    """What a class is made with: the parameters of its own __init__, or the fields of a dataclass or named tuple."""
    for part in node.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            return parameters(part, method=True)
    kinds = [ast.unparse(each) for each in (*node.decorator_list, *node.bases)]
    if not any("dataclass" in kind or kind == "NamedTuple" for kind in kinds):
        return []
    own = [part for part in node.body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)]
    names = [part.target.id for part in own if "init=False" not in ast.unparse(part)]  # type: ignore[union-attr]
    return [name for name in names if not name.startswith("_")]


def faults(file: Path) -> Iterator[str]:
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield from faults_of(node, node.name, method=False)
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            missing = set(fields(node)) - explained(ast.get_docstring(node) or "")
            if missing:
                yield f"{node.name} does not explain {sorted(missing)}"
            for part in node.body:
                # A method without words of its own has those of the class it overrides.
                if isinstance(part, ast.FunctionDef) and not part.name.startswith("_") and ast.get_docstring(part):
                    yield from faults_of(part, f"{node.name}.{part.name}", method=True)


def faults_of(function: ast.FunctionDef, name: str, *, method: bool) -> Iterator[str]:
    if any("property" in ast.unparse(each) for each in function.decorator_list):
        return
    text = ast.get_docstring(function) or ""
    missing = set(parameters(function, method=method)) - explained(text)
    if missing:
        yield f"{name} does not explain {sorted(missing)}"
    returns = function.returns is not None and ast.unparse(function.returns) != "None"
    if returns and not re.search(r"^(Returns|Yields):$", text, flags=re.MULTILINE):
        yield f"{name} does not say what it returns"
    inner = [part for part in ast.walk(function) if isinstance(part, ast.FunctionDef) and part is not function]
    within = {line for part in inner for line in ast.walk(part)}
    raises = any(isinstance(part, ast.Raise) and part.exc and part not in within for part in ast.walk(function))
    if raises and not re.search(r"^Raises:$", text, flags=re.MULTILINE):
        yield f"{name} does not say what it raises"


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(PACKAGE)))
def test_what_is_public_is_explained(file: Path) -> None:
    assert list(faults(file)) == []


def test_the_test_can_fail(tmp_path: Path) -> None:
    file = tmp_path / "module.py"
    file.write_text(
        'def f(a, *, b) -> int:\n    """Return.\n\n    Args:\n        a: One.\n    """\n    raise ValueError(a)\n'
    )
    assert [fault.partition(" does ")[2] for fault in faults(file)] == [
        "not explain ['b']",
        "not say what it returns",
        "not say what it raises",
    ]
