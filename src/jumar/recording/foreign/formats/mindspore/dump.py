"""Reads MindSpore's dumps (`MINDSPORE_DUMP_CONFIG`): `rank_R/NET/GRAPH/ITERATION/*.npy`, grouped into calls.

A file is `TYPE.NAME.TASK.STREAM.TIME.{input|output}.SLOT.FORMAT.DTYPE.npy`. Each file of a call has a time of its own,
and on the CPU and GPU task and stream are 0: the files of one type and name in one iteration are a call, the next one
begins where a slot comes again. The smallest time is the call's place. `NAME` is the scoped name with `_` for `/`;
`execution_order/ms_execution_order_graph_G.csv` has it as it was, and says how many operators there were. `Parameter.*`
files hold the values when the step is over.

The layers that a scoped name tells (`fc-Dense`) become modules: their input is what their first operator read, their
output what the last one gave.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.operators.names import MINDSPORE
from jumar.recording.foreign.dump import Dump, DumpFormat, Part
from jumar.recording.foreign.formats.mindspore.updates import DumpedCall, natural, updates
from jumar.recording.foreign.formats.npy_names import NpyName, parse
from jumar.recording.foreign.safe import load_npy
from jumar.recording.foreign.values import call_row
from jumar.recording.schema import CallRow

if TYPE_CHECKING:
    import numpy as np

_RANK = re.compile(r"rank_(\d+)")


def iterations(path: Path) -> dict[tuple[int, int], list[Path]]:
    """Return the folders of files by (step, rank), of all graphs of a net together."""
    found: dict[tuple[int, int], list[Path]] = defaultdict(list)
    ranks = [(path, match)] if (match := _RANK.fullmatch(path.name)) else []
    ranks += [(place, match) for place in sorted(path.glob("rank_*")) if (match := _RANK.fullmatch(place.name))]
    for place, rank in ranks:
        for folder in sorted(place.glob("*/*/*")):
            if folder.is_dir() and folder.name.isdecimal() and folder.parent.name.isdecimal():
                found[int(folder.name), int(rank[1])].append(folder)
    return found


def recognises(path: Path) -> bool:
    """Tell whether a folder holds such a dump."""
    if not path.is_dir():
        return False
    folders = [folder for of in iterations(path).values() for folder in of]
    return any(_named(file) is not None for folder in folders for file in folder.glob("*.npy"))


def open_mindspore(path: Path) -> Dump:
    """Return the dump. Rows are made when they are asked for."""
    found = iterations(path)
    parts = {place: _part(folders) for place, folders in sorted(found.items())}
    return Dump(path, "MindSpore's dump", parts, warnings=_warnings(found), framework="mindspore")


def _part(folders: Sequence[Path]) -> Part:
    calls = [call for folder in folders for call in _calls(folder)]
    # The order of the graph, where its table is there: the CPU runs what is ready first.
    order = {name: place for folder in folders for place, name in enumerate(_execution_order(folder))}
    operators = [call for call in calls if call.type != "Parameter"]
    operators.sort(key=lambda call: (order.get(call.name, len(order)), call.time))
    values = [call for call in calls if call.type == "Parameter"]
    paths = {call.path: call.layers for call in operators}
    owners = {path.replace(".", "_"): (path, layers[-1][1]) for path, layers in paths.items() if path}

    def entries() -> list[tuple[CallRow, dict[str, Path]]]:
        return [*_rows(operators), *_modules(operators), *updates(values, owners, operators)]

    def tensors(row: CallRow) -> dict[str, np.ndarray]:
        return {name: load_npy(file) for name, file in entries()[row.seq][1].items()}

    return Part(rows=lambda: [row for row, _ in entries()], tensors=tensors)


def _calls(folder: Path) -> Iterator[DumpedCall]:
    """Yield the calls of a folder. Files of other names are left out."""
    scoped = _scoped_names(folder)
    files: dict[tuple[str, str], list[tuple[NpyName, Path]]] = defaultdict(list)
    for file in folder.glob("*.npy"):
        parsed = _named(file)
        if parsed is not None and not file.is_symlink():
            files[parsed.operator, parsed.name].append((parsed, file))
    for (kind, name), of in files.items():
        call: DumpedCall | None = None
        for part, file in sorted(of, key=lambda pair: (pair[0].time, pair[0].side, pair[0].index)):
            tensor = f"{part.side}.{part.index}"
            if call is None or tensor in call.files:
                if call is not None:
                    yield call
                call = DumpedCall(kind, scoped.get(name, name), part.time)
            call.files[tensor] = file
        if call is not None:
            yield call


def _named(file: Path) -> NpyName | None:
    return parse(file.stem)


def _scoped_names(folder: Path) -> dict[str, str]:
    """Return the scoped names of the operators of a graph by their names in files."""
    names = _execution_order(folder)
    return {name.replace("/", "_"): name for name in names}


def _execution_order(folder: Path) -> list[str]:
    """Return the scoped names of a graph's operators in order; empty where the table is not there."""
    graph, rank = folder.parent.name, folder.parent.parent.parent
    table = rank / "execution_order" / f"ms_execution_order_graph_{graph}.csv"
    try:
        lines = table.read_text("utf-8", errors="replace").splitlines()
    except OSError:
        return []
    return [line.strip() for line in lines[1:] if line.strip()]


def _warnings(found: dict[tuple[int, int], list[Path]]) -> list[str]:
    """Return what the dump lacks of what ran, one sentence a graph, of its first iteration."""
    told: list[str] = []
    seen: set[tuple[Path, int]] = set()
    for (step, rank), folders in sorted(found.items()):
        for folder in folders:
            order = _execution_order(folder)
            if (folder.parent, rank) in seen:
                continue
            seen.add((folder.parent, rank))
            files = [name for file in folder.glob("*.npy") if (name := _named(file)) is not None]
            kinds = {name.operator for name in files} - {"Parameter", "AssignAdd"}
            if kinds and all(kind.startswith("Apply") for kind in kinds):
                told.append(
                    f"rank {rank} holds the optimizer's operators and parameters only, as PyNative mode dumps them; "
                    "record the script with `jumar record` to see its layers"
                )
            dumped = {name.name for name in files}
            lacking = [name for name in order if name.replace("/", "_") not in dumped]
            if order and lacking:
                told.append(
                    f"graph {folder.parent.name} of rank {rank} ran {len(order)} operators and iteration {step} holds "
                    f"{len(order) - len(lacking)} of them (first missing: {lacking[0]})"
                )
    return told


def _rows(operators: Sequence[DumpedCall]) -> Iterator[tuple[CallRow, dict[str, Path]]]:
    for call in operators:
        arrays = {name: load_npy(call.files[name]) for name in sorted(call.files, key=natural)}
        layers = call.layers
        row = call_row(
            f"{MINDSPORE}{call.type}",
            {name: array for name, array in arrays.items() if name.startswith("input.")},
            {name: array for name, array in arrays.items() if name.startswith("output.")},
            phase=call.phase,
            module_path=call.path,
            module_type=layers[-1][1] if layers else "",
        )
        yield row, call.files


def _modules(operators: Sequence[DumpedCall]) -> Iterator[tuple[CallRow, dict[str, Path]]]:
    """Yield the calls of layers that the operators of the forward pass tell, the inner ones first."""
    inside: dict[tuple[tuple[str, str], ...], list[DumpedCall]] = defaultdict(list)
    for call in operators:
        if call.phase == "forward":
            layers = tuple(call.layers)
            for depth in range(1, len(layers) + 1):
                inside[layers[:depth]].append(call)
    places = {id(call): place for place, call in enumerate(operators)}
    for layers, calls in sorted(inside.items(), key=lambda item: (places[id(item[1][-1])], -len(item[0]))):
        files = {"input.0": calls[0].files.get("input.0"), "output.0": calls[-1].files.get("output.0")}
        known = {name: file for name, file in files.items() if file is not None}
        arrays = {name: load_npy(file) for name, file in known.items()}
        kind = layers[-1][1]
        row = call_row(
            kind,
            {name: array for name, array in arrays.items() if name == "input.0"},
            {name: array for name, array in arrays.items() if name == "output.0"},
            kind="module",
            module_path=".".join(name for name, _ in layers if name),
            module_type=kind,
        )
        yield row, known


FORMAT = DumpFormat("a folder of MindSpore's dump", recognises, open_mindspore)
