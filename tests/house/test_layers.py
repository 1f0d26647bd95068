"""The arrows of the house go one way, and the rooms that promise to need no torch need none."""

from __future__ import annotations

import ast
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from house_sources import SOURCE, arrows

ALLOWED: dict[str, set[str]] = {
    "base": set(),
    "amp": {"base"},
    "operators": {"base"},
    "recording": {"base", "operators"},
    "soc": {"base", "operators", "recording"},
    "timeline": {"base", "operators", "recording", "soc"},
    "tfadapter": {"base", "operators", "recording", "soc"},
    "npu": {"base", "operators", "recording", "soc", "amp"},
    "device": {"base", "operators", "recording", "soc", "npu", "amp"},
}
MACHINES = set(ALLOWED) - {"timeline", "tfadapter"}
ALLOWED |= {
    "capture": MACHINES | {"tfadapter"},
    "convert": MACHINES,
    "comparison": MACHINES | {"capture"},
    "advise": {"base", "operators", "recording", "soc", "timeline", "tfadapter"},
    "tune": MACHINES | {"capture", "timeline"},
    "export": {"base", "operators", "recording", "device"},
    "port": MACHINES | {"capture", "convert", "comparison", "advise"},
}
VIEWED = {"base", "recording", "comparison", "timeline", "advise", "tune", "port"}
ALLOWED |= {
    "show": set(ALLOWED),
    "testing": set(ALLOWED),
    "view": VIEWED | {"show"},
    "cli": set(ALLOWED) | {"show", "view"},
    "__main__": {"cli"},
}
"""Room -> rooms it may import; the table of docs/design.md."""

TORCH_FREE = [
    "jumar",
    "jumar.advise.bottlenecks",
    "jumar.advise.doctor",
    "jumar.amp",
    "jumar.base",
    "jumar.cli.main",
    "jumar.comparison",
    "jumar.convert",
    "jumar.convert.assess",
    "jumar.device",
    "jumar.export",
    "jumar.operators",
    "jumar.port",
    "jumar.recording",
    "jumar.show",
    "jumar.soc.estimate",
    "jumar.soc.profiles",
    "jumar.soc.support",
    "jumar.testing.plugin",
    "jumar.tfadapter",
    "jumar.timeline",
    "jumar.tune",
    "jumar.view.server.serving",
]
"""Rooms that import no torch, so that they are quick and work on a machine that has none."""


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


def test_no_file_imports_itself_through_others() -> None:
    order = TopologicalSorter(arrows())
    try:
        order.prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))
