"""Writing artefacts."""

from __future__ import annotations

import json
import shutil
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from jumar import __version__
from jumar.base.errors import OutputError
from jumar.base.files import write_atomically
from jumar.base.native import instructions
from jumar.tune.artefact.manifest import ALIGNMENT, GRAPH, MANIFEST, SITE, WEIGHTS, Manifest, WeightPlace
from jumar.tune.artefact.members import checksum
from jumar.tune.bank.database import now
from jumar.tune.bank.precisions import KnownPrecision
from jumar.tune.bank.store import Bank
from jumar.tune.engines.base import Engine, Site
from jumar.tune.graph.capture.captured import Captured
from jumar.tune.model.errors import TuneError
from jumar.tune.model.gate import Gain
from jumar.tune.model.machine import Machine, this_machine
from jumar.tune.plan import Plan
from jumar.tune.plan.plan import KIND

if TYPE_CHECKING:
    from torch import nn

_CHUNK = 1 << 22


def write(
    path: Path,
    captured: Captured,
    plan: Plan,
    *,
    machine: Machine | None = None,
    gain: Gain | None = None,
    engines: Sequence[Engine] | None = None,
    open_for: str = "",
) -> None:
    """Build `plan` for a captured graph on this machine and write it, with the graph and its weights, to `path`.

    The file is written under another name and renamed. `open_for` is kept in its manifest. Raises TuneError when an
    engine is not here as the plan wants it, OutputError when `path` cannot be written; what an engine raises is passed
    on.
    """
    from jumar.tune.graph.capture import data
    from jumar.tune.plan.build import build

    machine = machine or this_machine()
    tensors = data.load(captured.data)
    graph = captured.graph
    constants = {place: tensors[place] for place in graph.constants}
    example = [tensors[place] for place in graph.variables]
    with tempfile.TemporaryDirectory(prefix="jumar-freeze-") as scratch:
        site = Site(
            graph=graph, constants=constants, example=example, folder=Path(scratch), num_threads=machine.num_threads
        )
        build(plan, site, engines)
        files = {SITE + file.relative_to(scratch).as_posix(): file for file in _files(Path(scratch))}
        held = constants | {place: tensors[place] for place in captured.state}
        places, num_bytes = _places(held)
        manifest = Manifest(
            name=captured.name, key=graph.key, plan=plan, machine=machine, jumar=__version__, created=now(), gain=gain,
            in_nesting=captured.in_nesting, out_nesting=captured.out_nesting, places=list(captured.places),
            state=dict(captured.state), weights=places, checksums={}, open_for=open_for,
            instructions=instructions(),
        )  # fmt: skip
        _write(path, manifest, json.dumps(graph.to_json()).encode(), _packed(held, places, num_bytes), files)


def freeze(
    model: nn.Module, inputs: Sequence[Any], path: str | Path, *, bank: Bank, kwargs: Mapping[str, Any] | None = None,
    name: str = "model", error_budget: float | None = None,
) -> Manifest:  # fmt: skip
    """Write the artefact of a model whose graph for these inputs is in `bank`; return what the artefact says of itself.

    `inputs` are the arguments of a call by place, `kwargs` those by name; the artefact is called in the same way.
    With an `error_budget` it is the fastest plan in fewer bits that was chosen for these weights within it, where there
    is one. Raises TuneError when the bank has no plan for the model on this machine, or the model cannot be captured;
    otherwise as `write`.
    """
    from jumar.tune.artefact.loading import read_manifest
    from jumar.tune.graph.capture.capture import graph_of_module

    with tempfile.TemporaryDirectory(prefix="jumar-freeze-") as scratch:
        captured = graph_of_module(model, inputs, kwargs, folder=Path(scratch), name=name)
        freeze_captured(captured, Path(path), bank=bank, error_budget=error_budget)
    return read_manifest(Path(path))


def freeze_captured(
    captured: Captured, path: Path, *, bank: Bank, machine: Machine | None = None, error_budget: float | None = None
) -> None:
    """Write the artefact of a captured graph that is in `bank`. Raises as `freeze`."""
    machine = machine or this_machine()
    lowered = None if error_budget is None else _within(error_budget, captured, bank, machine)
    if lowered is not None:
        write(path, captured, lowered.plan, machine=machine, gain=lowered.gain)
        return
    entry = bank.slots(captured.graph, machine).get(KIND)
    if entry is None or entry.policy is None:
        raise TuneError(
            f"{bank.name} has no plan for {captured.name} on this machine, so there is nothing to freeze. "
            "Tune it first: jumar tune MODEL --job-type 1."
        )
    write(path, captured, Plan.of(entry.policy), machine=machine, gain=entry.gain)


def _within(budget: float, captured: Captured, bank: Bank, machine: Machine) -> KnownPrecision | None:
    """Return what the bank has in fewer bits for these very weights, within a budget and usable here."""
    from jumar.tune.bank.presence import lowered_within
    from jumar.tune.graph.capture import data

    tensors = data.load(captured.data)
    weights = {place: tensors[place] for place in captured.graph.constants}
    return lowered_within(budget, bank, captured.graph, weights, machine)


def _files(folder: Path) -> Iterator[Path]:
    return (file for file in sorted(folder.rglob("*")) if file.is_file())


def _places(constants: Mapping[int, torch.Tensor]) -> tuple[list[WeightPlace], int]:
    """Return where each weight goes, and the bytes of all."""
    offset, places = 0, []
    for place, tensor in sorted(constants.items()):
        num_bytes = _span(tensor) * tensor.element_size()
        dtype = str(tensor.dtype).removeprefix("torch.")
        places.append(
            WeightPlace(
                place=place, offset=offset, num_bytes=num_bytes, dtype=dtype, shape=tuple(tensor.shape),
                stride=tensor.stride(),
            )
        )  # fmt: skip
        offset += -(-num_bytes // ALIGNMENT) * ALIGNMENT
    return places, offset


def _span(tensor: torch.Tensor) -> int:
    """Return how many elements of memory a tensor reaches over."""
    if not tensor.numel():
        return 0
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))


def _packed(constants: Mapping[int, torch.Tensor], places: Sequence[WeightPlace], num_bytes: int) -> memoryview:
    memory = torch.zeros(max(num_bytes, 1), dtype=torch.uint8)
    for one in places:
        part = memory[one.offset : one.offset + one.num_bytes].view(getattr(torch, one.dtype))
        source = constants[one.place].detach()
        part.copy_(torch.as_strided(source, (part.numel(),), (1,), source.storage_offset()))
    return memory.numpy().data


def _write(path: Path, manifest: Manifest, graph: bytes, weights: memoryview, files: Mapping[str, Path]) -> None:
    """Write the members; the manifest comes first, so its checksums are taken beforehand."""
    checksums = {GRAPH: checksum(graph), WEIGHTS: checksum(weights)}
    checksums |= {name: checksum(file.read_bytes()) for name, file in files.items()}
    described = json.dumps(replace(manifest, checksums=checksums).to_json(), indent=1).encode()

    def fill(part: Path) -> None:
        # NOTE: stored, not compressed: weights and machine code hardly shrink, and loading would have to inflate them.
        with zipfile.ZipFile(part, "w", zipfile.ZIP_STORED) as archive:
            archive.writestr(MANIFEST, described)
            archive.writestr(GRAPH, graph)
            with archive.open(WEIGHTS, "w", force_zip64=True) as member:
                member.write(weights)
            for name, source in files.items():
                with source.open("rb") as given, archive.open(name, "w", force_zip64=True) as member:
                    shutil.copyfileobj(given, member, _CHUNK)

    try:
        write_atomically(path, fill)
    except OSError as error:
        raise OutputError(f"{path} cannot be written: {error.strerror}. Make room, or name another place.") from error
