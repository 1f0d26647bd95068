"""`verdict`: what is done with an operator that has no kernel on the chip, by the support tables and the settings.

By the tables an operator is native or decomposed (it runs on the device, and nothing is said), falls back to the
host, or is refused. `unsupported="warn"` does as torch_npu: it warns once for an operator that falls back, runs it
on the host between two transfers, and raises for one that is refused. `error` raises for both, `fallback` runs both
and says nothing. What the tables do not know for certain is never refused under `warn`: it runs, after a warning.
TORCH_NPU_FALLBACK_CPU_DISABLE=1 forbids falling back, as it does on the NPU.

The warning names the operator torch_npu would name: the one inside a composition that has no kernel.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal, NoReturn

import torch

from jumar.npu.core import events
from jumar.npu.core.callers import user_frame
from jumar.npu.core.overloads import dense_parts, tensors_in
from jumar.npu.core.plans import Call, Plan
from jumar.npu.core.retag import to_npu
from jumar.npu.core.state import STATE
from jumar.npu.dispatch.alternatives import alternative
from jumar.operators import base_name
from jumar.soc.support import OperatorSupport, SupportTables, known_versions

Action = Literal["device", "host", "doubtful", "refuse", "forbid"]
"""device: runs there; host: falls back; doubtful: the tables do not know; refuse: has no kernel; forbid: may not
fall back."""

PLUMBING = frozenset({"_efficientzerotensor", "_fused_sdp_choice", "_make_dep_token", "_resize_output"})
_TESTS = ("_test_", "_foobar")
"""Operators of PyTorch's own machinery: nothing that a user called, so nothing is said about them."""

OF_OTHERS: set[str] = set()
"""Operators of other libraries that have a kernel: those that other distributions registered."""

_WITHOUT = "TORCH_NPU_FALLBACK_CPU_DISABLE"

_warned: set[tuple[str, str]] = set()


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is done with an operator. `leaf` is the operator without a kernel, `note` what the tables say of it."""

    action: Action
    leaf: str = ""
    note: str = ""


_ON_DEVICE = Verdict("device")


class _Inside(threading.local):
    depth = 0


_INSIDE = _Inside()


@contextlib.contextmanager
def as_one() -> Iterator[None]:
    """Within the block, operators are parts of one that the chip has a kernel for: none of them falls back."""
    _INSIDE.depth += 1
    try:
        yield
    finally:
        _INSIDE.depth -= 1


def runs_on_host(name: str) -> bool:
    """Return whether a call of this operator is carried out by the host, with the host's arithmetic."""
    return verdict(name).action == "host"


def verdict(name: str) -> Verdict:
    """Return what happens to the operator `name` (`aten::fmax`) under the settings of the moment."""
    settings = STATE.settings
    return _verdict(name, settings.soc, settings.unsupported, os.environ.get(_WITHOUT) == "1")


@functools.lru_cache(maxsize=8192)
def _verdict(name: str, soc: str, unsupported: str, may_not_fall_back: bool) -> Verdict:
    base = base_name(name)
    if base in PLUMBING or base.startswith(_TESTS) or name in OF_OTHERS:
        return _ON_DEVICE
    tables = SupportTables.load(soc, tables_version())
    support = tables.operator(name)
    if support.status in ("native", "decomposed"):
        return _ON_DEVICE
    action: Action = "host"
    if support.status == "unsupported" and unsupported == "warn":
        action = "refuse" if support.certain else "doubtful"
    elif unsupported == "error":
        action = "refuse"
    elif may_not_fall_back:
        action = "forbid"
    leaf = _leaf(tables, support)
    return Verdict(action, leaf.name, leaf.note)


@functools.cache
def tables_version() -> str:
    """Return the version of the tables for this PyTorch: its own, else the nearest older one, else the oldest."""
    mine = tuple(int(part) for part in torch.__version__.split(".")[:2])
    known = [(tuple(int(part) for part in version.split(".")), version) for version in known_versions()]
    older = [version for number, version in known if number <= mine]
    return older[-1] if older else known[0][1]


def _leaf(tables: SupportTables, support: OperatorSupport) -> OperatorSupport:
    """Return the operator inside a composition for which there is no kernel; a leaf itself otherwise."""
    seen = {support.name}
    while support.through and support.through[0] not in seen:
        support = tables.operator(support.through[0])
        seen.add(support.name)
    return support


def layer(plan: Plan, call: Call) -> Call:
    """Refuse the operator, or have it run on the host with a warning; one with a kernel keeps its call."""
    found = verdict(plan.name)
    if found.action == "device":
        return call
    if found.action in ("refuse", "forbid"):

        def refused(keys: Any, *args: Any, **kwargs: Any) -> Any:
            return call(keys, *args, **kwargs) if _INSIDE.depth else _refuse(plan.name, found)

        return refused
    speaks = STATE.settings.unsupported == "warn"

    def run(keys: Any, *args: Any, **kwargs: Any) -> Any:
        if _INSIDE.depth:
            return call(keys, *args, **kwargs)
        if speaks:
            _warn(found)
        if found.action == "doubtful":
            return call(keys, *args, **kwargs)
        _tell("aten::_to_cpu", list(tensors_in((*args, *kwargs.values()))), "device-to-host")
        result = call(keys, *args, **kwargs)
        _tell("aten::_to_copy", list(tensors_in((result,))), "host-to-device")
        return result

    return run


def forget() -> None:
    """Let every operator warn again."""
    _warned.clear()


def _refuse(name: str, found: Verdict, *_: Any, **__: Any) -> NoReturn:
    if found.action == "forbid":
        raise RuntimeError(
            f"The operator '{found.leaf}' would execute its main computation on CPU through dispatcher backend "
            "fallback because no kernel is registered for the NPU PrivateUse1 backend, but CPU fallback is disabled "
            f"by {_WITHOUT}=1. {alternative(name)}"
        )
    inside = "" if found.leaf == name else f" It calls {found.leaf}, which {found.note}."
    raise NotImplementedError(
        f"Could not run '{name}' with arguments from the 'npu' backend. This could be because the operator doesn't "
        f"exist for this backend: {STATE.soc} has no kernel for it.{inside} {alternative(name)}"
    )


def _warn(found: Verdict) -> None:
    """Warn about an operator, the first time, at the line of the user's code."""
    key = (found.leaf, STATE.settings.soc)
    if key in _warned:
        return
    _warned.add(key)
    if found.action == "host":
        message = (
            f"CAUTION: The operator '{found.leaf}' is not currently supported on the NPU backend and will fall back "
            "to run on the CPU. This may have performance implications."
        )
    else:
        message = f"The operator '{found.leaf}' {found.note}; whether it runs there, only an NPU can tell."
    warnings.warn(message, UserWarning, stacklevel=user_frame())


def _tell(operator: str, tensors: list[torch.Tensor], transfer: events.Transfer) -> None:
    """Tell the listeners of one transfer of a fallback; host tensors are shown on the device they belong to."""
    if not STATE.listeners or not tensors:
        return
    now = time.perf_counter_ns()
    tensors = [part for tensor in tensors for part in dense_parts(tensor)]
    size = sum(tensor.nbytes for tensor in tensors)
    on_npu = [to_npu(tensor) for tensor in tensors]
    into, out = (on_npu, tensors) if transfer == "device-to-host" else (tensors, on_npu)
    single = transfer == "host-to-device" and len(tensors) == 1
    args, result = ((into[0],), out[0]) if single else ((into,), out)
    event = events.OperatorEvent(operator, args, {}, result, now, now, transfer, size)
    for listener in tuple(STATE.listeners):
        listener(event)
