"""The pages name only what is there: modules and their names, files of the sources, folders of the rooms."""

from __future__ import annotations

import importlib
import importlib.util
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "jumar"
ROOMS = sorted(path.name for path in SOURCE.iterdir() if path.is_dir() and path.name != "__pycache__")
PAGES = sorted(
    path
    for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md"),
                 *SOURCE.rglob("*.md")]
    if path.name != "CHANGELOG.md"
)  # fmt: skip
"""The changelog names modules as they were, too."""

DOTTED = re.compile(r"(?<![\w./-])jumar((?:\.[A-Za-z_]\w*)+)")
IMPORTED = re.compile(r"\bfrom (jumar[\w.]*) import ([\w, ]+)")
PATH = re.compile(r"(?<![\w./~-])(?:src/)?jumar/[\w./]+[\w/]")
IN_ROOM = re.compile(rf"`((?:{'|'.join(ROOMS)})/[\w./]*)`")
FILE_ENDINGS = ("jumar", "toml", "json", "yaml", "yml")
"""`net.jumar` is a file, `jumar.toml` too; neither is a name of Python."""


@cache
def quoted() -> frozenset[str]:
    """Return the dotted names that the sources hold as texts: keys of metadata, groups of entry points."""
    texts = [path.read_text("utf-8") for path in [*SOURCE.rglob("*.py"), ROOT / "pyproject.toml"]]
    return frozenset(name for text in texts for name in re.findall(r"[\"'](jumar(?:\.\w+)+)[\"']", text))


@cache
def exists(name: str) -> bool:
    """Tell whether `name` is a module, or a name of one, or a text that the sources hold."""
    if name in quoted():
        return True
    parts = name.split(".")
    for size in range(len(parts), 0, -1):
        if _is_module(".".join(parts[:size])):
            found: object = importlib.import_module(".".join(parts[:size]))
            for part in parts[size:]:
                if not hasattr(found, part):
                    return part in getattr(found, "__annotations__", {})
                found = getattr(found, part)
            return True
    return False


def _is_module(name: str) -> bool:
    path = SOURCE.parent.joinpath(*name.split("."))
    return path.is_dir() or path.with_suffix(".py").is_file()


def unknown(text: str) -> set[str]:
    """Return what a page's text names and is not there."""
    names = {f"jumar{tail}" for tail in DOTTED.findall(text) if tail.split(".")[1] not in FILE_ENDINGS}
    for module, imported in IMPORTED.findall(text):
        names |= {f"{module}.{name.split()[0]}" for name in imported.split(",") if name.strip()}
    paths = {path.removeprefix("src/").removeprefix("jumar/") for path in PATH.findall(text)}
    paths |= set(IN_ROOM.findall(text))
    return {name for name in names if not exists(name)} | {path for path in paths if not (SOURCE / path).exists()}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_a_page_names_what_is_there(page: Path) -> None:
    assert unknown(page.read_text("utf-8")) == set()


def test_a_wrong_name_would_be_found() -> None:
    text = (
        "`jumar.accuracy.calls`, `jumar.recording.Nothing`, src/jumar/migrate/engine.py, `tune/nowhere.py`, a net.jumar"
    )
    wrong = {"jumar.accuracy.calls", "jumar.recording.Nothing", "migrate/engine.py", "tune/nowhere.py"}
    assert unknown(text) == wrong
    assert unknown("from jumar.recording import Recording, nothing") == {"jumar.recording.nothing"}
    assert (
        unknown("`jumar.recording.Recording`, `jumar.tune.model.task`, `capture/fast`, src/jumar/cli/main.py") == set()
    )
