"""`Run`, the subject of every rule: one step after the other, each operator with the calls that made its inputs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from jumar.advise.bottlenecks.cost import Cost
from jumar.advise.bottlenecks.tensors import allocates, flops, is_view, tensor_key, traffic_bytes, written_storages
from jumar.base.findings import Finding
from jumar.operators import has, short_name
from jumar.recording.schema import CallRow, RunInfo, TensorRow
from jumar.soc.profiles import SocProfile

PRICE = "estimated_per_step_us"
"""Name of the estimate in a finding's evidence."""


class OperatorSupport(Protocol):
    """What the device tables say about one operator."""

    @property
    def status(self) -> str:
        """`native`, `decomposed`, `fallback` or `unsupported`."""

    @property
    def source(self) -> str:
        """Where the tables have it from."""

    @property
    def certain(self) -> bool:
        """False where a table leaves room for doubt."""


class SupportLookup(Protocol):
    """The device tables of one SoC, `jumar.soc.support.SupportTables`."""

    def operator(self, name: str) -> OperatorSupport:
        """Return how the SoC runs `aten::add.Tensor`."""


@dataclass(frozen=True, slots=True)
class Call:
    """One operator call of a step, in the order of the step."""

    index: int
    """Position among the step's operator calls."""
    row: CallRow
    base: str
    """`add` for `aten::add.Tensor`."""
    is_view: bool
    launched: bool
    """Whether it starts work on a device: not a view, an allocation, or a read of a number."""
    bytes_moved: int
    flops: int | None
    origins: tuple[int | None, ...]
    """For each input the call that made exactly this tensor (storage, offset, shape, stride) in this step."""
    versions: tuple[int, ...]
    """For each input how often its storage had been written in this step."""
    output_versions: tuple[int, ...]
    """The same for each output, after the call."""
    prepares_data: bool
    """Whether it looks like the host's preparation of data: outside any module, in the forward phase, and made
    of nothing but constants and results of other such calls of this step (indices drawn, samples stacked)."""


@dataclass(frozen=True, slots=True)
class StepView:
    """One step of one rank."""

    step: int
    calls: tuple[Call, ...]
    modules: tuple[CallRow, ...]
    losses: tuple[CallRow, ...]

    @classmethod
    def build(cls, step: int, rows: Iterable[CallRow]) -> StepView:
        """Sort a step's rows by kind and trace each operator's inputs to the calls that made them."""
        rows = list(rows)
        operators = [row for row in rows if row.kind == "op" and not row.name.startswith("profiler::")]
        return cls(
            step,
            tuple(_trace(operators)),
            tuple(row for row in rows if row.kind == "module"),
            tuple(row for row in rows if row.kind == "loss"),
        )

    def origin(self, call: Call, position: int) -> Call | None:
        """Return the call of this step that made input number `position` of `call`, if there is one."""
        index = call.origins[position]
        return None if index is None else self.calls[index]


def _trace(rows: Sequence[CallRow]) -> list[Call]:
    made: dict[object, int] = {}
    prepared: set[int] = set()
    writes: dict[int, int] = {}
    calls: list[Call] = []
    for index, row in enumerate(rows):
        view = is_view(row)
        own = {tensor_key(tensor) for tensor in row.inputs}
        origins = tuple(made.get(tensor_key(tensor)) for tensor in row.inputs)
        versions = tuple(writes.get(tensor.storage, 0) for tensor in row.inputs)
        if not view:
            for storage in written_storages(row):
                writes[storage] = writes.get(storage, 0) + 1
        for tensor in row.outputs:
            if tensor_key(tensor) not in own:
                made[tensor_key(tensor)] = index
        prepares_data = _prepares_data(row, prepared)
        if prepares_data:
            prepared.update(tensor.storage for tensor in row.outputs)
        calls.append(
            Call(
                index=index,
                row=row,
                base=short_name(row.name),
                is_view=view,
                launched=not view and not allocates(row.name) and not has(row.name, "to_host"),
                bytes_moved=traffic_bytes(row),
                flops=flops(row),
                origins=origins,
                versions=versions,
                output_versions=tuple(writes.get(tensor.storage, 0) for tensor in row.outputs),
                prepares_data=prepares_data,
            )
        )
    return calls


def _prepares_data(row: CallRow, prepared: set[int]) -> bool:
    if row.phase != "forward" or row.module_type:
        return False
    # `lift_fresh` makes a tensor of Python numbers: its input is seen here for the first time.
    return short_name(row.name) == "lift_fresh" or all(tensor.storage in prepared for tensor in row.inputs)


@dataclass(slots=True)
class Totals:
    """Sums over the steps seen so far, for shares, and what the recording carries at all."""

    num_steps: int = 0
    num_calls: int = 0
    num_launches: int = 0
    bytes_moved: int = 0
    flops: int = 0
    operator_us: float = 0.0
    has_sources: bool = False
    has_storages: bool = False
    has_times: bool = False
    has_formats: bool = False
    phases: set[str] = field(default_factory=set)

    def add(self, step: StepView) -> None:
        """Count one step in."""
        self.num_steps += 1
        for call in step.calls:
            self._add_call(call)

    def _add_call(self, call: Call) -> None:
        row = call.row
        self.num_calls += 1
        self.num_launches += call.launched
        self.bytes_moved += call.bytes_moved
        self.flops += call.flops or 0
        self.operator_us += row.duration_us
        self.phases.add(row.phase)
        self.has_sources = self.has_sources or bool(row.source)
        self.has_times = self.has_times or row.duration_us > 0
        self.has_storages = self.has_storages or any(tensor.storage for tensor in row.inputs)
        self.has_formats = self.has_formats or any(tensor.format not in {"ND", ""} for tensor in row.inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One rank of a recording, as every rule gets it.

    A rule goes through `steps` once, in order, and keeps counts instead of rows. So a long recording needs as much
    memory as a short one. `totals` is complete when `steps` has ended.
    """

    soc: SocProfile
    accelerator: str
    """`npu` or `cuda` when the run was on one, else empty: then every tensor was on the CPU."""
    support: SupportLookup | None = None
    """None when the device tables could not be loaded; the rules that need them then say so."""
    support_error: str = ""
    steps: Iterable[StepView] = ()
    totals: Totals = field(default_factory=Totals)
    info: RunInfo = field(default_factory=RunInfo)
    """How the recording was made."""

    @property
    def compiles_online(self) -> bool:
        """Whether the SoC compiles an operator for each new shape by default (`jit_compile=True`).

        The vendor's pages on `torch_npu.npu.set_compile_mode` give True for the Atlas training (910A
        family) and Atlas inference (310P) products, False for the A2 and A3 generations.
        """
        return self.soc.family == "A1" or self.soc.name.startswith("Ascend310P")

    def is_on_device(self, tensor: TensorRow) -> bool:
        """Return whether a tensor would be on the NPU: by its device, or, in a run on the CPU, all of them."""
        return not self.accelerator or tensor.device.split(":")[0] not in {"cpu", "meta"}

    def on_device(self, call: Call) -> bool:
        """Return whether a call works on the device: some tensor of it is there.

        In a run on the CPU all do but those that look like the preparation of data.
        """
        if not self.accelerator:
            return not call.prepares_data
        return any(self.is_on_device(tensor) for tensor in (*call.row.inputs, *call.row.outputs))

    def priced(self, finding: Finding, cost: Cost | None = None) -> Finding:
        """Return the finding with the estimate of what it costs a step, which gives its place in the list."""
        estimate_us = (cost or Cost()).estimate_us(self.soc, compiles_online=self.compiles_online)
        return replace(finding, evidence={**finding.evidence, PRICE: round(estimate_us, 1)})


def find_accelerator(device: str, rows: Iterable[CallRow]) -> str:
    """Return `npu` or `cuda` from how a run names its device, or else from where the tensors of `rows` were."""
    kind = re.split(r"[ :]", device, maxsplit=1)[0]
    if kind not in {"cpu", ""}:
        return kind
    seen = (tensor.device.split(":")[0] for row in rows for tensor in (*row.inputs, *row.outputs))
    return next((name for name in seen if name not in {"cpu", "meta", ""}), "")
