"""The ledger: for each operator its formats, the conversions it needed, and whether it was compiled.

    with follow(lambda execution: print(execution.event.operator, execution.transdata)):
        ...

The ledger is on where operators are compiled online or private formats are allowed (by default: on the first
generation), and else only while it is followed: the formats of results are kept only while it is on.
"""

from __future__ import annotations

import contextlib
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter
from torch.optim.optimizer import register_optimizer_step_post_hook

from jumar.npu.core.events import OperatorEvent, listen
from jumar.npu.core.plans import PLANS
from jumar.npu.core.state import STATE
from jumar.npu.dispatch.policy import runs_on_host
from jumar.npu.formats import mode
from jumar.npu.formats.ledger import account, compile_cache
from jumar.npu.formats.ledger.account import TransData, signature_of


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


@dataclass(slots=True, kw_only=True)
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
    """What the conversions read and wrote, padding included."""
    num_compiles: int
    num_compile_hits: int
    """Executions that found their operator compiled."""
    transdata_by_operator: Mapping[str, int]
    compiles_by_operator: Mapping[str, int]
    steps: tuple[StepCounts, ...]
    """One for each step that has ended, then one for what came after; one in all where none was marked."""


Subscriber = Callable[[Execution], None]


@dataclass(slots=True)
class _Books:
    subscribers: list[Subscriber] = field(default_factory=list)
    done: list[StepCounts] = field(default_factory=list)
    current: StepCounts = field(default_factory=StepCounts)
    transdata_by_operator: Counter[str] = field(default_factory=Counter)
    compiles_by_operator: Counter[str] = field(default_factory=Counter)
    compiled: list[tuple[int, compile_cache.Key]] = field(default_factory=list)
    """Every compile with the number of its step."""
    cache: compile_cache.CompileCache = field(default_factory=compile_cache.CompileCache)
    known: dict[Any, _Entry] = field(default_factory=dict)
    """What has been worked out about calls, by their signature."""
    marks_itself: bool = True
    """Whether optimizer steps end steps: until `mark_step` is called."""
    leader: weakref.ref[torch.optim.Optimizer] | None = None
    """The optimizer whose steps end steps: the first that stepped."""
    held: contextlib.ExitStack | None = None
    """The listener, while the ledger is on."""


_BOOKS = _Books()
MAX_SIGNATURES = 20_000
"""Signatures that are kept; a program whose shapes never repeat starts over with them."""

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
        "npu::get_npu_format",
        "npu::get_storage_size",
        "npu::empty_with_format",
        "npu::unsafe_empty_with_format",
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
    steps = (*books.done, books.current)
    return Counts(
        num_executions=sum(step.num_executions for step in steps),
        num_transdata=sum(step.num_transdata for step in steps),
        transdata_bytes=sum(step.transdata_bytes for step in steps),
        num_compiles=sum(step.num_compiles for step in steps),
        num_compile_hits=books.cache.num_hits,
        transdata_by_operator=dict(books.transdata_by_operator),
        compiles_by_operator=dict(books.compiles_by_operator),
        steps=tuple(replace(step) for step in steps),
    )


def reset_counts() -> None:
    """Count from nothing again. What has been compiled stays compiled."""
    _BOOKS.done, _BOOKS.current, _BOOKS.compiled = [], StepCounts(), []
    _BOOKS.transdata_by_operator, _BOOKS.compiles_by_operator = Counter(), Counter()
    _BOOKS.cache.num_hits, _BOOKS.marks_itself, _BOOKS.leader = 0, True, None


def forget_compiled() -> None:
    """Have every operator compiled again, as a new process would."""
    _BOOKS.cache.clear()


def mark_step() -> None:
    """End a step: what is counted from now on belongs to the next.

    Until this is first called, every step of the optimizer that stepped first ends a step.
    """
    _BOOKS.marks_itself = False
    _end_step()


def recompiling(after_step: int = 1) -> tuple[str, ...]:
    """Return what keeps being compiled after the first `after_step` steps, the worst first.

    Each sentence names an operator, how often it was compiled and which dimension or attribute varies. A
    network whose shapes are fixed has none: it compiles in its first step only.
    """
    first = [key for step, key in _BOOKS.compiled if step < after_step]
    later = [key for step, key in _BOOKS.compiled if step >= after_step]
    operators = {key.operator for key in later}
    return compile_cache.sentences([*(key for key in first if key.operator in operators), *later], later)


def _end_step() -> None:
    _BOOKS.done.append(_BOOKS.current)
    _BOOKS.current = StepCounts()


def runs(event: OperatorEvent) -> bool:
    """Return whether the device ran something for this operator."""
    if event.transfer or event.operator in RUNS_NOTHING:
        return False
    plan = PLANS.get(event.operator)
    return plan is None or plan.form != "view"


class _Entry:
    """What is known of calls of one signature."""

    __slots__ = ("call", "is_compiled", "is_run", "key", "outcome")

    def __init__(self, event: OperatorEvent) -> None:
        self.is_run = runs(event)
        self.call = account.call_of(event)
        self.outcome = account.outcome_of(self.call)
        self.key = compile_cache.key_of(event, self.call)
        self.is_compiled = self.call.mode.online and not runs_on_host(event.operator)


_LAZY = (UninitializedParameter, UninitializedBuffer)


def _record(event: OperatorEvent) -> None:
    books = _BOOKS
    if event.args and type(event.args[0]) in _LAZY:  # it has no shape yet, and nothing to run on
        return
    signature = (signature_of(event), event.transfer, account.switches(), STATE.settings.unsupported)
    entry = books.known.get(signature)
    if entry is None:
        if len(books.known) >= MAX_SIGNATURES:
            books.known.clear()
        entry = books.known[signature] = _Entry(event)
    outcome = entry.outcome
    if outcome.made:
        account.apply(outcome, event)
    compiled = _count(event, entry)
    if books.subscribers:
        execution = Execution(event, outcome.inputs, outcome.outputs, outcome.transdata, compiled)
        for subscriber in tuple(books.subscribers):
            subscriber(execution)


def _count(event: OperatorEvent, entry: _Entry) -> bool:
    """Write one call into the books and return whether it was compiled."""
    step, transdata = _BOOKS.current, entry.outcome.transdata
    if transdata:
        step.num_transdata += len(transdata)
        step.transdata_bytes += sum(item.size_bytes for item in transdata)
        _BOOKS.transdata_by_operator[event.operator] += len(transdata)
    if not entry.is_run:
        return False
    step.num_executions += 1
    return entry.is_compiled and _compile(entry.key)


def _compile(key: compile_cache.Key) -> bool:
    books = _BOOKS
    if not books.cache.needs_compile(key):
        return False
    books.current.num_compiles += 1
    books.compiles_by_operator[key.operator] += 1
    books.compiled.append((len(books.done), key))
    return True


def is_on() -> bool:
    """Return whether the ledger sees operators now."""
    return _BOOKS.held is not None


def refresh() -> None:
    """Open or close the ledger, as the SoC, its switches and the subscribers want it."""
    wanted = bool(_BOOKS.subscribers) or mode.is_recorded()
    if wanted and _BOOKS.held is None:
        _BOOKS.held = contextlib.ExitStack()
        _BOOKS.held.enter_context(listen(_record))
    elif not wanted and _BOOKS.held is not None:
        _BOOKS.held.close()
        _BOOKS.held = None


def _optimizer_stepped(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """End a step where `mark_step` is not used: at every step of the optimizer that stepped first."""
    books = _BOOKS
    if books.held is None or not books.marks_itself:
        return
    if books.leader is None or books.leader() is None:
        books.leader = weakref.ref(optimizer)
    if books.leader() is optimizer:
        _end_step()


def install() -> None:
    """Follow the settings of the emulator. Called once, when the backend comes up."""
    STATE.on_settings.append(refresh)
    register_optimizer_step_post_hook(_optimizer_stepped)
    refresh()
