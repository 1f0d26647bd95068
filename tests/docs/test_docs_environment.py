"""docs/environment.md names each environment variable that the sources read, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "jumar"
PAGE = (ROOT / "docs" / "environment.md").read_text("utf-8")
NAME = re.compile(r"[A-Z][A-Z0-9_]+")
READERS = {"getenv", "_number", "_switch"}
"""`os.getenv(NAME)`, and functions of tune and the emulator that read one variable."""


@cache
def read() -> frozenset[str]:
    """Return the names that the sources ask the environment for."""
    found = {name for path in SOURCE.rglob("*.py") for name in _python(ast.parse(path.read_text("utf-8")))}
    native = [path for ending in ("*.cpp", "*.h") for path in SOURCE.rglob(ending)]
    found |= {name for path in native for name in re.findall(r'getenv\("(\w+)"\)', path.read_text("utf-8"))}
    return frozenset(found)


def _python(tree: ast.Module) -> Iterator[str]:
    """Yield literal names, and those of the file's constants, where an environment is read."""
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        name = _asked(node)
        text = constants.get(name.id) if isinstance(name, ast.Name) else getattr(name, "value", None)
        if isinstance(text, str) and NAME.fullmatch(text):
            yield text
        if (
            isinstance(node, ast.Constant)
            and isinstance(node.value, str)
            and re.fullmatch(r"JUMAR_[A-Z_]+", node.value)
        ):
            yield node.value


def _asked(node: ast.AST) -> ast.expr | None:
    """Return what a call or subscript asks an environment for; None for other nodes."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and _is_environment(node.value):
        return node.slice
    if isinstance(node, ast.Call) and node.args:
        function = node.func
        name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
        if name in ("get", "pop"):
            return node.args[0] if isinstance(function, ast.Attribute) and _is_environment(function.value) else None
        return node.args[0] if name in READERS else None
    return None


def _is_environment(node: ast.expr) -> bool:
    return ast.unparse(node).split(".")[-1] in ("environ", "environment", "variables")


def documented() -> set[str]:
    """Return the names in the first cells of the page's tables."""
    cells = re.findall(r"^\| (`[^|]+`) \|", PAGE, re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}


def test_every_variable_that_is_read_has_a_row() -> None:
    assert read() - documented() == set()


def test_every_row_is_a_variable_that_the_sources_name() -> None:
    texts = "\n".join(path.read_text("utf-8") for path in SOURCE.rglob("*") if path.suffix in (".py", ".cpp", ".h"))
    assert {name for name in documented() if not re.search(rf"\b{name}\b", texts)} == set()


def test_the_variables_of_jumar_are_exactly_those_of_the_sources() -> None:
    assert {name for name in documented() if name.startswith("JUMAR_")} == {
        name for name in read() if name.startswith("JUMAR_")
    }
