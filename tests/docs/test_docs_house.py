"""design.md, architecture.md and stability.md show the house as it is: rooms, arrows, what runs, what is public."""

from __future__ import annotations

import importlib
import re
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "scripts"))

from build_house_picture import ALLOWED, PICTURE, picture

import jumar
from jumar.base.plugins import GROUPS

ROOT = Path(__file__).parents[2]

DESIGN = (ROOT / "docs" / "design.md").read_text("utf-8")
ARCHITECTURE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
ROOMS = [room for room in ALLOWED if not room.startswith("_")]
NAMED = sorted(set(re.findall(rf"`((?:{'|'.join(ROOMS)})(?:\.\w+)+)(?::([\w.]+))?`", ARCHITECTURE)))


def rows() -> dict[str, str]:
    """Return room -> the cell "may use" of the table in design.md."""
    return dict(re.findall(r"^\| `(\w+)` \|.*\| ([^|]+) \|$", DESIGN, re.MULTILINE))


def used(cell: str, before: list[str]) -> set[str]:
    """Return the rooms that a cell names; "all above" are those in the rows before."""
    named = set(re.findall(r"`(\w+)`", cell))
    if cell.startswith(("all above", "the rooms above")):
        return set(before) - named
    return named


def test_the_table_of_rooms_is_that_of_the_tests() -> None:
    table = rows()
    names = list(table)
    assert {room: used(cell, names[: names.index(room)]) for room, cell in table.items()} == {
        room: ALLOWED[room] for room in ROOMS
    }


def test_the_picture_is_drawn_from_the_tables() -> None:
    assert PICTURE.read_text("utf-8") == picture(), "run python scripts/build_house_picture.py"


def test_there_are_eight_flows() -> None:
    assert re.findall(r"^## (\d)\. ", ARCHITECTURE, re.MULTILINE) == [str(number) for number in range(1, 9)]
    assert len(NAMED) > 60


@pytest.mark.parametrize(("module", "name"), NAMED, ids=str)
def test_what_a_flow_names_is_there(module: str, name: str) -> None:
    found: object = importlib.import_module(f"jumar.{module}")
    for part in name.split(".") if name else []:
        found = getattr(found, part)


def test_every_dependency_has_its_reason() -> None:
    tomllib = pytest.importorskip("tomllib")  # Python 3.11
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    asked = [*project["dependencies"], *(one for extra in project["optional-dependencies"].values() for one in extra)]
    names = {re.split(r"[\[<>=;~! ]", one)[0] for one in asked}
    table = DESIGN[DESIGN.index("## Dependencies") : DESIGN.index("## Errors")]
    assert names - set(re.findall(r"[\w-]+", table)) == set()


def test_the_public_names_and_groups_are_those_of_the_page() -> None:
    page = (ROOT / "docs" / "stability.md").read_text("utf-8")
    public = page[page.index("## Public") : page.index("## Files")]
    first = public[: public.index("- **Commands")]
    assert set(jumar.__all__) == set(re.findall(r"`(\w+)`", first)) - {"jumar"}
    assert set(GROUPS.values()) == set(re.findall(r"`(jumar\.\w+)`", public)) - {"jumar.testing"}
