"""`OperatorCall`: an operator call with the values that its arguments had before, for the writers of dumps.

Listeners are told of an operator when it has ended. By then, what it wrote into an argument has replaced the value
that came in. A layer around the kernels keeps a copy of such arguments while there is an observer.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from jumar.npu.core import plans
from jumar.npu.core.events import OperatorEvent, listen
from jumar.npu.core.overloads import written_by
from jumar.npu.core.plans import Call, Plan
from jumar.npu.core.retag import to_cpu
from jumar.npu.formats.ledger.ledger import runs

Tensor = torch.Tensor
Feed = Callable[[Plan, list[Any], dict[str, Any]], dict[str, Tensor]]
"""Replaces arguments (CPU tensors, by position and name) before a kernel runs and returns those it put in."""


@dataclass(frozen=True, slots=True)
class OperatorCall:
    """One call of an operator that the device ran."""

    event: OperatorEvent
    inputs: Mapping[str, Tensor]
    """CPU tensors as the kernel read them, by `input.0`, `input.2.1` (second of a list), `input.weight` (keyword)."""
    outputs: Mapping[str, Tensor]
    """CPU tensors by `output.0`. They share memory with the device: copy what you keep."""
    is_fed: bool
    """Whether a feed put arguments in."""


Observer = Callable[[OperatorCall], None]


class _Before(threading.local):
    """What the thread's operator had for arguments that are no longer what they were."""

    operator: str = ""
    kept: Mapping[str, Tensor] = {}
    is_fed: bool = False


_before = _Before()
_feeds: list[Feed] = []
_num_observers = 0


@contextlib.contextmanager
def observe(observer: Observer, feed: Feed | None = None) -> Iterator[None]:
    """Call `observer` with every call within the block, in all threads; a `feed` is asked before each."""
    global _num_observers  # noqa: PLW0603  # one count for the process, as there is one list of layers
    _num_observers += 1
    _feeds.extend([feed] if feed else [])
    plans.reset()
    try:
        with listen(lambda event: _tell(observer, event)):
            yield
    finally:
        _num_observers -= 1
        if feed:
            _feeds.remove(feed)
        _before.operator, _before.kept = "", {}
        plans.reset()


def _tell(observer: Observer, event: OperatorEvent) -> None:
    if not runs(event):
        return
    # NOTE: an operator with a kernel of its own passes no layer; what is kept is then another operator's.
    is_own = _before.operator == event.operator
    kept, is_fed = (_before.kept, _before.is_fed) if is_own else ({}, False)
    inputs = {**dict(_named("input", event.args, event.kwargs)), **kept}
    results = event.result if isinstance(event.result, (list, tuple)) else (event.result,)
    observer(OperatorCall(event, inputs, dict(_named("output", results, {})), is_fed))


def _named(side: str, args: Any, kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Tensor]]:
    for key, value in (*enumerate(args), *kwargs.items()):
        if isinstance(value, Tensor):
            yield f"{side}.{key}", _on_cpu(value)
        elif isinstance(value, (list, tuple)):
            for index, item in enumerate(value):
                if isinstance(item, Tensor):
                    yield f"{side}.{key}.{index}", _on_cpu(item)


def _on_cpu(tensor: Tensor) -> Tensor:
    return tensor.detach() if tensor.is_cpu else to_cpu(tensor)


def layer(plan: Plan, call: Call) -> Call:
    """Keep what a kernel overwrites, and let feeds replace what it reads, while there is an observer."""
    if not _num_observers or plan.form == "view":
        return call
    written = _written(plan)

    def kept(keys: Any, *args: Any, **kwargs: Any) -> Any:
        values, named = list(args), dict(kwargs)
        before: dict[str, Tensor] = {}
        for feed in _feeds:
            before |= feed(plan, values, named)
        _before.is_fed = bool(before)
        for name, tensor in _named("input", values, named):
            if name.split(".")[1] in written and name not in before:
                before[name] = tensor.clone()
        _before.operator, _before.kept = plan.name, before
        return call(keys, *values, **named)

    return kept


def _written(plan: Plan) -> frozenset[str]:
    """Return positions and names of the arguments that an operator writes, as texts."""
    return frozenset(part for position, name in written_by(plan.name).items() for part in (str(position), name))


def to_array(tensor: Tensor) -> np.ndarray:
    """Return a copy of a CPU tensor as a NumPy array; types that NumPy lacks become float32."""
    plain = tensor.detach()
    plain = plain.resolve_conj().resolve_neg()
    try:
        return np.array(plain.numpy(), copy=True, order="C")
    except TypeError:
        return plain.float().numpy()
