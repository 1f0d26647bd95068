"""The arrows of the house go one way, and the rooms that promise to need no torch need none."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[2] / "src" / "jumar"
LEAVES = {"collector", "errors", "findings", "home", "lazy", "native", "rules", "threads", "words"}
ALLOWED: dict[str, set[str]] = {
    "errors": set(),
    "findings": set(),
    "collector": set(),
    "home": set(),
    "threads": set(),
    "lazy": {"collector"},
    "native": {"errors", "home"},
    "words": set(),
    "rules": {"findings"},
    "recording": LEAVES,
    "device": LEAVES | {"recording"},
    "capture": LEAVES | {"recording", "device"},
    "migrate": LEAVES | {"recording", "device"},
    "assess": LEAVES | {"recording", "device", "migrate"},
    "accuracy": LEAVES | {"recording", "device", "capture"},
    "performance": LEAVES | {"recording", "device"},
    "tune": LEAVES | {"recording", "device", "capture"},
    "doctor": LEAVES | {"recording", "device"},
    "export": LEAVES | {"recording", "device"},
    "report": LEAVES,
    "testing": LEAVES | {"device"},
    "pages": LEAVES | {"recording", "accuracy", "tune", "report"},
    "port": LEAVES
    | {"recording", "device", "capture", "migrate", "assess", "accuracy", "performance", "doctor", "report"}
    | {"pages"},
    "cli": LEAVES
    | {"recording", "device", "capture", "migrate", "assess", "accuracy", "performance", "tune", "doctor", "export"}
    | {"report", "pages", "port"},
    "__main__": {"cli"},
}
"""Room -> rooms it may import; the table of docs/design.md."""

TORCH_FREE = [
    "jumar",
    "jumar.accuracy",
    "jumar.assess",
    "jumar.cli.main",
    "jumar.device",
    "jumar.device.estimate",
    "jumar.doctor",
    "jumar.export",
    "jumar.device.soc",
    "jumar.device.support",
    "jumar.migrate",
    "jumar.performance",
    "jumar.port",
    "jumar.recording",
    "jumar.report",
    "jumar.testing.plugin",
    "jumar.tune",
]


def room_of(path: Path) -> str:
    relative = path.relative_to(SOURCE)
    return relative.parts[0] if len(relative.parts) > 1 else relative.stem


def imported_rooms(path: Path) -> set[str]:
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative imports hide the arrows"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        rooms |= {name.split(".")[1] for name in names if name.startswith("jumar.")}
    return rooms - {"__version__", "py"}


FILES = sorted(path for path in SOURCE.rglob("*.py") if path != SOURCE / "__init__.py")


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_a_file_imports_only_rooms_to_its_left(path: Path) -> None:
    room = room_of(path)
    assert room in ALLOWED, f"{room} is not a room of the house: add it to docs/design.md and to this test"
    assert imported_rooms(path) - ALLOWED[room] - {room} == set()


@pytest.mark.parametrize("module", TORCH_FREE)
def test_importing_a_room_imports_no_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_table_covers_every_room() -> None:
    assert {room_of(path) for path in FILES} <= set(ALLOWED)


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(path: Path, known: set[str]) -> set[str]:
    """Files that `path` imports at run time, also inside functions; imports for the type checker do not count."""
    tree = ast.parse(path.read_text("utf-8"))
    for_types = {
        id(node)
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and ast.unparse(block.test) == "TYPE_CHECKING"
        for statement in block.body
        for node in ast.walk(statement)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in for_types:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in names}
    return found & known


def test_no_file_imports_itself_through_others() -> None:
    files = {module_name(path): path for path in SOURCE.rglob("*.py")}
    arrows = {name: imported_modules(path, set(files)) - {name} for name, path in files.items()}
    order = TopologicalSorter(arrows)
    try:
        order.prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
