"""The device's books: for each operator the formats, the conversions it needed, and whether it was compiled.

    with follow(lambda execution: print(execution.event.operator, execution.transdata)):
        ...

The ledger is always on where the SoC's default mode has private formats or online compilation (the first
generation), and else only while somebody follows it: format state is kept only while it is on.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import torch

from jumar.device.emulator import compile_cache
from jumar.device.emulator.events import OperatorEvent, listen
from jumar.device.emulator.formats.names import Format, base_of_rank
from jumar.device.emulator.formats.state import format_of
from jumar.device.emulator.operands import inputs_of, outputs_of
from jumar.device.emulator.plans import PLANS
from jumar.device.emulator.state import STATE


@dataclass(frozen=True, slots=True)
class TransData:
    """One conversion between formats that the framework inserts before or after an operator."""

    source_format: str
    target_format: str
    shape: tuple[int, ...]
    dtype: str
    """`float16`."""
    size_bytes: int
    """What the conversion reads and writes together, padding included."""
    argument: int
    """Position of the argument it is for, or -1-i for result i."""


@dataclass(frozen=True, slots=True)
class Execution:
    """One operator as the device ran it."""

    event: OperatorEvent
    input_formats: tuple[str, ...]
    """By tensor argument, in order (tensors of a list each count); before the conversions."""
    output_formats: tuple[str, ...]
    transdata: tuple[TransData, ...]
    compiled: bool
    """True where the operator's key was new to the compile cache."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCounts:
    """What happened in one step, or since the last mark."""

    num_executions: int = 0
    num_transdata: int = 0
    transdata_bytes: int = 0
    num_compiles: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Counts:
    """What the ledger has counted since `reset_counts`."""

    num_executions: int
    """Operators that the device ran: views, allocations and host copies run nothing."""
    num_transdata: int
    transdata_bytes: int
    num_compiles: int
    transdata_by_operator: Mapping[str, int]
    compiles_by_operator: Mapping[str, int]
    steps: tuple[StepCounts, ...]
    """One for each `mark_step`, then one for what came after the last; one in all where none was marked."""


Subscriber = Callable[[Execution], None]


@dataclass(slots=True)
class _Tally:
    num_executions: int = 0
    num_transdata: int = 0
    transdata_bytes: int = 0
    num_compiles: int = 0

    def frozen(self) -> StepCounts:
        return StepCounts(
            num_executions=self.num_executions,
            num_transdata=self.num_transdata,
            transdata_bytes=self.transdata_bytes,
            num_compiles=self.num_compiles,
        )


@dataclass(slots=True)
class _Books:
    subscribers: list[Subscriber] = field(default_factory=list)
    done: list[StepCounts] = field(default_factory=list)
    current: _Tally = field(default_factory=_Tally)
    transdata_by_operator: Counter[str] = field(default_factory=Counter)
    compiles_by_operator: Counter[str] = field(default_factory=Counter)
    cache: compile_cache.CompileCache = field(default_factory=compile_cache.CompileCache)
    held: contextlib.ExitStack | None = None
    """The listener, while the ledger is on."""


_BOOKS = _Books()

RUNS_NOTHING = frozenset(
    {
        "aten::empty.memory_format",
        "aten::empty_strided",
        "aten::resize_",
        "aten::record_stream",
        "aten::set_",
        "aten::set_.source_Storage",
        "aten::set_.source_Storage_storage_offset",
        "aten::set_.source_Tensor",
        "aten::_local_scalar_dense",
    }
)
"""Operators that launch nothing on the device: they allocate, point, or copy to the host."""


@contextlib.contextmanager
def follow(subscriber: Subscriber) -> Iterator[None]:
    """Call `subscriber` with the `Execution` of every operator within the block, in all threads."""
    _BOOKS.subscribers.append(subscriber)
    refresh()
    try:
        yield
    finally:
        _BOOKS.subscribers.remove(subscriber)
        refresh()


def counts() -> Counts:
    """Return what has been counted since the start or the last `reset_counts`."""
    books = _BOOKS
    steps = (*books.done, books.current.frozen())
    return Counts(
        num_executions=sum(step.num_executions for step in steps),
        num_transdata=sum(step.num_transdata for step in steps),
        transdata_bytes=sum(step.transdata_bytes for step in steps),
        num_compiles=sum(step.num_compiles for step in steps),
        transdata_by_operator=dict(books.transdata_by_operator),
        compiles_by_operator=dict(books.compiles_by_operator),
        steps=steps,
    )


def reset_counts() -> None:
    """Count from nothing again. What has been compiled stays compiled."""
    _BOOKS.done, _BOOKS.current = [], _Tally()
    _BOOKS.transdata_by_operator, _BOOKS.compiles_by_operator = Counter(), Counter()


def mark_step() -> None:
    """End a step: what is counted from now on belongs to the next."""
    _BOOKS.done.append(_BOOKS.current.frozen())
    _BOOKS.current = _Tally()


def runs(event: OperatorEvent) -> bool:
    """Return whether the device ran something for this operator."""
    if event.transfer or event.operator in RUNS_NOTHING:
        return False
    plan = PLANS.get(event.operator)
    return plan is None or plan.form != "view"


def _record(event: OperatorEvent) -> None:
    books = _BOOKS
    formats = tuple(str(_format(item.tensor)) for item in inputs_of(event))
    results = tuple(str(_format(item.tensor)) for item in outputs_of(event))
    compiled = False
    if runs(event):
        compiled = compile_cache.is_online() and books.cache.needs_compile(compile_cache.key_of(event, formats))
        books.current.num_executions += 1
        if compiled:
            books.current.num_compiles += 1
            books.compiles_by_operator[event.operator] += 1
    if books.subscribers:
        execution = Execution(event, formats, results, (), compiled)
        for subscriber in tuple(books.subscribers):
            subscriber(execution)


def _format(tensor: torch.Tensor) -> Format:
    return base_of_rank(tensor.dim()) if tensor.is_cpu else format_of(tensor)


def is_on() -> bool:
    """Return whether the ledger sees operators now."""
    return _BOOKS.held is not None


def refresh() -> None:
    """Open or close the ledger, as the SoC and the subscribers want it."""
    wanted = bool(_BOOKS.subscribers) or not STATE.profile.is_aclnn_default
    if wanted and _BOOKS.held is None:
        _BOOKS.held = contextlib.ExitStack()
        _BOOKS.held.enter_context(listen(_record))
    elif not wanted and _BOOKS.held is not None:
        _BOOKS.held.close()
        _BOOKS.held = None


def install() -> None:
    """Follow the settings of the emulator. Called once, when the backend comes up."""
    STATE.on_settings.append(refresh)
    refresh()
