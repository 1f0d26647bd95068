"""Precision files: the vendor's two for the chosen point, and Jumar's, which also holds the plan.

Any of them is read back by `jumar tune --precision FILE`: an `op_precision_mode` ini, a `modify_mixlist` JSON, or

    {"format": "jumar-precision", "version": 1, "graph": KEY, "names": {"conv2d_0": "int8"}, "point": {...}}
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from jumar.base.errors import InputError, JumarError, OutputError
from jumar.base.files import write_text
from jumar.tune.graph import Graph, Reference
from jumar.tune.measure.options import PrecisionOptions
from jumar.tune.plan import Plan
from jumar.tune.plan.lowering.lowering import PRECISIONS, Lowering, LowPrecision
from jumar.tune.plan.lowering.rewrite import effective
from jumar.tune.search.precision.outcome import Point
from jumar.tune.search.precision.request.lists import (
    MODES,
    Changes,
    MixList,
    Mode,
    ModeList,
    mix_list_of,
    mode_list_of,
    node_names,
)

FORMAT, VERSION = "jumar-precision", 1


class Lists(Protocol):
    """What a file says of operators."""

    def nodes(self, graph: Graph, precision: LowPrecision) -> dict[Reference, LowPrecision]:
        """Return which nodes of `graph` are lowered, `precision` where the file names none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NameList:
    """Precisions by the operators' names."""

    names: Mapping[str, LowPrecision] = field(default_factory=dict)

    def nodes(self, graph: Graph, precision: LowPrecision) -> dict[Reference, LowPrecision]:
        """Return the named nodes, each in its own precision: `precision` does not matter."""
        return {value: self.names[name] for value, name in node_names(graph).items() if name in self.names}


@dataclass(frozen=True, slots=True, kw_only=True)
class PrecisionFile:
    """A file that was read."""

    lists: Lists
    key: str = ""
    """Of the graph it was made for; empty in the vendor's files."""
    plan: Plan | None = None
    lowering: Lowering = field(default_factory=Lowering)

    def nodes(self, graph: Graph, precision: LowPrecision) -> dict[Reference, LowPrecision]:
        """Return which nodes of a graph are lowered."""
        return self.lists.nodes(graph, precision)


def names_of(graph: Graph, lowering: Lowering) -> dict[str, LowPrecision]:
    """Return the lowered operators by name."""
    low = effective(graph, lowering)
    return {name: low[value] for value, name in node_names(graph).items() if value in low}


def jumar_text(graph: Graph, point: Point) -> str:
    """Return Jumar's precision file for a point."""
    data: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "graph": graph.key,
        "names": names_of(graph, point.lowering),
        "point": point.to_json(),
    }
    return json.dumps(data, indent=1) + "\n"


def write_files(graph: Graph, point: Point, folder: Path, name: str, taken: Collection[Path] = ()) -> list[Path]:
    """Write the three files of a point, each as a whole or not at all. Raises OutputError when that is not possible.

    They are `<name>_op_precision.ini`, `<name>_mixlist.json` and `<name>_precision.json`; where one of those is
    `taken`, the beginning of the graph's key stands behind the name.
    """
    texts = {
        "op_precision.ini": ini_text(mode_list_of(graph, point.lowering)),
        "mixlist.json": mix_list_text(mix_list_of(graph, point.lowering)),
        "precision.json": jumar_text(graph, point),
    }
    kept = {path.resolve() for path in taken}
    named = ({folder / f"{stem}_{end}": text for end, text in texts.items()} for stem in _stems(name, graph.key))
    files = next(paths for paths in named if kept.isdisjoint(path.resolve() for path in paths))
    return [_written(path, text) for path, text in files.items()]


def _stems(name: str, key: str) -> Iterator[str]:
    """Yield beginnings of file names: `net`, `net_1f2e3d4c`, `net_1f2e3d4c_2`, …"""
    stem = re.sub(r"[^\w.-]+", "_", name).strip("_") or "graph"
    yield from (stem, f"{stem}_{key[:8]}")
    yield from (f"{stem}_{key[:8]}_{number}" for number in count(2))


def with_file_read(asked: PrecisionOptions) -> PrecisionOptions:
    """Return options with what their precision file says, which is read once. Raises as `read_precision_file` does."""
    if asked.file is None or asked.content is not None:
        return asked
    return replace(asked, content=read_precision_file(asked.file))


def read_precision_file(path: Path) -> PrecisionFile:
    """Read any of the three. Raises InputError, which says what is wrong, for anything else."""
    try:
        text = path.read_text("utf-8-sig")  # editors on Windows write a mark before the text
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read as a precision file: {error}.") from error
    if not text.strip():
        raise InputError(f"{path} is empty and must name operators and their precision; `jumar tune` writes one.")
    if not text.lstrip().startswith("{"):
        return PrecisionFile(lists=parse_ini(text, str(path)))
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} must hold one JSON object; {error}.") from error
    if not isinstance(data, dict) or data.get("format") != FORMAT:
        return PrecisionFile(lists=mix_list_from(data, str(path)))
    return _jumar_file(data, path)


def _jumar_file(data: Mapping[str, Any], path: Path) -> PrecisionFile:
    if data.get("version") != VERSION:
        raise InputError(f"{path} is of version {data.get('version')}, and this Jumar reads {VERSION}; tune again.")
    try:
        point = Point.from_json(data["point"])
        names = dict(data["names"])
        key = str(data["graph"])
    except (KeyError, TypeError, ValueError, AttributeError, JumarError) as error:
        raise InputError(f"{path} is no whole precision file of Jumar ({error!r}); write it again.") from error
    if strange := [name for name, precision in names.items() if precision not in PRECISIONS]:
        raise InputError(f"{path} gives {strange[0]} the precision {names[strange[0]]!r}; it must be one of {_KNOWN}.")
    return PrecisionFile(lists=NameList(names=names), key=key, plan=point.plan, lowering=point.lowering)


_KNOWN: Sequence[str] = ", ".join(PRECISIONS)


def _written(path: Path, text: str) -> Path:
    try:
        write_text(path, text)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}. Name a folder that can be.") from error
    return path


BY_TYPE, BY_NAME = "ByOpType", "ByNodeName"
_COMMENTS = ("#", ";")
_LISTS = ("black-list", "white-list")
_CHANGES = ("to-remove", "to-add")


def ini_text(modes: ModeList) -> str:
    """Return an `op_precision_mode` file."""
    sections = [(BY_TYPE, modes.by_type), (BY_NAME, modes.by_name)]
    lines: list[str] = []
    for title, entries in sections:
        if entries or title == BY_TYPE:
            lines += [f"[{title}]", *(f"{name}={entries[name]}" for name in sorted(entries))]
    return "\n".join(lines) + "\n"


def parse_ini(text: str, where: str) -> ModeList:
    """Read an `op_precision_mode` file. Raises InputError, naming the line, for anything else."""
    entries: dict[str, dict[str, Mode]] = {BY_TYPE: {}, BY_NAME: {}}
    section = BY_TYPE
    for number, raw in enumerate(text.split("\n"), start=1):
        line = raw.strip()
        if not line or line.startswith(_COMMENTS):
            continue
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1].strip()
            if section not in entries:
                raise InputError(f"{where}:{number} begins {line}; it must be [{BY_TYPE}] or [{BY_NAME}].")
            continue
        name, separator, mode = (part.strip() for part in line.rpartition("="))
        if not separator or not name or mode not in MODES:
            raise InputError(f"{where}:{number} must be operator=mode, mode one of {', '.join(MODES)}; got {line!r}.")
        entries[section][name] = mode
    return ModeList(by_type=entries[BY_TYPE], by_name=entries[BY_NAME])


def mix_list_text(lists: MixList) -> str:
    """Return a `modify_mixlist` file."""
    data = {
        name: {"to-remove": list(changes.to_remove), "to-add": list(changes.to_add)}
        for name, changes in zip(_LISTS, (lists.black, lists.white), strict=True)
    }
    return json.dumps(data, indent=2) + "\n"


def mix_list_from(data: Mapping[str, Any], where: str) -> MixList:
    """Read the content of a `modify_mixlist` file. Raises InputError for anything else."""
    form = '{"black-list": {"to-remove": [...], "to-add": [...]}, "white-list": {...}}'
    if strange := set(data) - set(_LISTS):
        raise InputError(f"{where} has the key {min(strange)!r}, which is no list; it must hold {form}.")
    found: dict[str, Changes] = {}
    for name in _LISTS:
        changes = data.get(name, {})
        if not isinstance(changes, dict) or set(changes) - set(_CHANGES) or not all(map(_is_types, changes.values())):
            raise InputError(f"{where} has a {name} that lists no types; it must hold {form}.")
        found[name] = Changes(to_remove=tuple(changes.get("to-remove", ())), to_add=tuple(changes.get("to-add", ())))
    return MixList(black=found["black-list"], white=found["white-list"])


def _is_types(items: object) -> bool:
    return isinstance(items, list) and all(isinstance(item, str) for item in items)
