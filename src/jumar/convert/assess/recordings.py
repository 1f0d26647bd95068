"""Assesses a recorded run: every operator that was executed, and what the chosen NPU does with it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from jumar.base.errors import InputError
from jumar.base.findings import Location
from jumar.convert.assess.model import Assessment, Row
from jumar.convert.assess.rules import OF_RECORDING, findings
from jumar.convert.assess.subject import Assessed
from jumar.recording import CallRow, Recording
from jumar.recording.schema import split_source
from jumar.soc import DEFAULT_SOC
from jumar.soc.support import SupportTables, chosen

API_HOMES = ("torch.", "torch.nn.functional.", "torch.Tensor.")
"""Where the public API of an operator's name is looked up for its dtype limits."""


@dataclass(slots=True)
class _Calls:
    num: int = 0
    duration_us: float = 0.0
    dtypes: set[str] = field(default_factory=set)
    places: dict[Location, None] = field(default_factory=dict)
    """Distinct places in the order in which they were first seen."""


def assess_recording(
    recording: str | Path | Recording, soc: str | None = None, torch_version: str | None = None
) -> Assessment:
    """Assess the operators of a recording, all its steps and ranks together.

    `soc` defaults to the one the run was made for, else Ascend910B1. In a run on an accelerator,
    operators whose tensors are all on the CPU are left out: they are not the device's business.
    Raises RecordingError for a folder that is no recording, InputError for one of another framework, DeviceError for an
    unknown SoC or version.
    """
    opened = recording if isinstance(recording, Recording) else Recording.open(recording)
    if opened.info.framework != "torch":
        raise InputError(
            f"{opened.path} must be a recording of PyTorch; it is of {opened.info.framework}, whose operators the "
            "table does not have. `jumar advise` and `jumar compare` take it."
        )
    release = chosen(torch_version)
    tables = SupportTables.load(soc or opened.info.soc or DEFAULT_SOC, release.name)
    calls: dict[str, _Calls] = defaultdict(_Calls)
    num_on_host = 0
    is_accelerated = not opened.info.device.startswith("cpu")
    for rank in opened.ranks:
        for row in opened.iter_rows(rank):
            if row.kind != "op":
                continue
            if is_accelerated and _is_on_host(row):
                num_on_host += 1
                continue
            _add(calls[row.name], row)
    rows = _rows(calls, tables)
    return Assessment(
        subject=str(opened.path),
        kind="recording",
        soc=tables.soc.name,
        torch_version=tables.torch_version,
        release_origin=release.origin,
        rows=rows,
        findings=findings(OF_RECORDING, Assessed(rows, tables)),
        notes=(*_notes(opened, num_on_host, bool(rows)), *opened.warnings),
    )


def _is_on_host(row: CallRow) -> bool:
    devices = {tensor.device for tensor in (*row.inputs, *row.outputs)}
    return devices == {"cpu"}


def _add(calls: _Calls, row: CallRow) -> None:
    calls.num += 1
    calls.duration_us += row.duration_us
    calls.dtypes.update(tensor.dtype for tensor in (*row.inputs, *row.outputs))
    path, line = split_source(row.source)
    place = Location(
        path=path,
        line=line,
        module_path=row.module_path or None,
        operator=row.name,
        phase=row.phase,
    )
    calls.places.setdefault(place)


def _rows(calls: dict[str, _Calls], tables: SupportTables) -> tuple[Row, ...]:
    total_us = sum(call.duration_us for call in calls.values())
    return tuple(_row(name, call, total_us, tables) for name, call in sorted(calls.items()))


def _row(name: str, calls: _Calls, total_us: float, tables: SupportTables) -> Row:
    support = tables.operator(name)
    return Row(
        name=name,
        kind="operator",
        status=support.status,
        num_uses=calls.num,
        where=tuple(calls.places),
        source=support.source,
        note=support.note,
        certain=support.certain,
        dtypes=tuple(sorted(calls.dtypes)),
        excluded_dtypes=tuple(dtype for dtype in sorted(calls.dtypes) if _is_excluded(name, dtype, tables)),
        duration_us=round(calls.duration_us, 3),
        share=calls.duration_us / total_us if total_us else None,
    )


def _is_excluded(operator: str, dtype: str, tables: SupportTables) -> bool:
    """True when the vendor's limits for the public API of this operator seem to exclude `dtype`."""
    base = operator.removeprefix("aten::").partition(".")[0].removesuffix("_")
    limits = (tables.api(home + base).excludes(dtype) for home in API_HOMES)
    return next((excluded for excluded in limits if excluded is not None), False)


def _notes(recording: Recording, num_on_host: int, has_rows: bool) -> list[str]:
    notes = []
    if "op" not in recording.info.levels:
        notes.append("The recording has no operator level: record again with --level module,op.")
    elif not has_rows:
        notes.append("The recording holds no operator that ran on the device.")
    if num_on_host:
        notes.append(f"Left out {num_on_host} operator calls on CPU tensors only: they never reach the device.")
    notes.extend(sorted({sentence for end in recording.ends.values() for sentence in end.not_covered}))
    return notes
