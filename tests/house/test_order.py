"""Inside a room the arrows go one way, too, and no folder holds more than a reader can take in.

`orders/ROOM.txt` lists a room's sub-packages and top files, the lowest first: each may import only what stands above
it in the list. A line `debt: A -> B` names an arrow that is still to be cut; the test fails when it is gone, so that
the list only gets shorter.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from house_sources import SOURCE, arrows, modules, room, unit

ORDERS = Path(__file__).parent / "orders"
LIMIT = 12
"""Entries of a folder. A registry (one rule, one engine a file) may hold more: docs/registries.txt."""

NO_ENTRIES = {"__init__.py", "__pycache__"}
ROOMS = sorted({room(name) for name, path in modules().items() if path.parent != SOURCE})


def order_of(name: str) -> tuple[list[str], set[str]]:
    """Return the units of a room, lowest first, and its debts."""
    lines = [line.split("#")[0].strip() for line in (ORDERS / f"{name}.txt").read_text("utf-8").splitlines()]
    debts = {line.removeprefix("debt:").strip() for line in lines if line.startswith("debt:")}
    return [line for line in lines if line and not line.startswith("debt:")], debts


@pytest.mark.parametrize("name", ROOMS)
def test_sub_packages_import_only_what_is_below_them(name: str) -> None:
    order, debts = order_of(name)
    assert len(order) == len(set(order))
    units = {unit(module) for module in modules() if room(module) == name} - {"__init__"}
    assert units == set(order), "orders/*.txt names each sub-package and top file of the room once"
    place = {part: index for index, part in enumerate(order)}
    upward = {
        f"{module} -> {imported}"
        for module in modules()
        if room(module) == name and unit(module) != "__init__"
        for imported in arrows()[module]
        if room(imported) == name and unit(imported) != "__init__"
        if place[unit(imported)] > place[unit(module)]
    }
    assert upward - debts == set(), "an arrow against the room's order"
    assert debts - upward == set(), "these debts are paid: take them out of the list"


def listed(path: Path) -> dict[str, str]:
    lines = path.read_text("utf-8").splitlines()
    return {line.split()[0]: line.partition(" ")[2].strip() for line in lines if line.strip()}


def test_no_folder_is_crowded() -> None:
    registries = listed(SOURCE.parents[1] / "docs" / "registries.txt")
    debts = {path: int(number) for path, number in listed(Path(__file__).parent / "crowded.txt").items()}
    folders = [SOURCE, *(path for path in SOURCE.rglob("*") if path.is_dir() and path.name != "__pycache__")]
    sizes = {
        path.relative_to(SOURCE).as_posix(): sum(
            entry.name not in {"__init__.py", "__pycache__"} for entry in path.iterdir()
        )
        for path in folders
    }
    crowded = {path: size for path, size in sizes.items() if size > LIMIT and path not in registries}
    assert {path: size for path, size in crowded.items() if size > debts.get(path, LIMIT)} == {}
    assert {path for path, size in debts.items() if crowded.get(path, 0) < size} == set(), "update crowded.txt: it fell"
    assert set(registries) <= set(sizes), "docs/registries.txt names a folder that is gone"
    assert all(registries.values()), "docs/registries.txt gives each folder's reason"
