"""The general path of an operator call: several logical devices, and listeners."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from jumar.npu.core import devices, events, single_device
from jumar.npu.core.plans import Plan
from jumar.npu.core.state import CURRENT, STATE
from jumar.npu.dispatch.placement import misplaced, tensors_of
from jumar.npu.memory.memory import index_of

_MANY_DEVICES = ("aten::copy_", "aten::_foreach_copy_", "aten::_copy_from", "aten::_copy_from_and_resize")
"""Operators whose tensors may be on different npu devices."""


def run(plan: Plan, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """Run one operator call: on which device, with what result, and who wants to know."""
    index = _index(plan, args, kwargs)
    if not STATE.listeners:
        return plan.general(args, kwargs, index)
    start_ns = time.perf_counter_ns()
    result = plan.general(args, kwargs, index)
    events.tell(plan.name, args, kwargs, result, start_ns, index)
    return result


def observed(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Return a special kernel that tells the listeners about its calls."""

    def call(*args: Any, **kwargs: Any) -> Any:
        if not STATE.listeners:
            return kernel(*args, **kwargs)
        start_ns = time.perf_counter_ns()
        result = kernel(*args, **kwargs)
        events.tell(name, args, kwargs, result, start_ns)
        return result

    return call


def _index(plan: Plan, args: Sequence[Any], kwargs: Mapping[str, Any]) -> int:
    """Return the logical device of the results. Raises RuntimeError when the tensors are on several."""
    index = None
    if STATE.multiple:
        for _, tensor in tensors_of(plan, args, kwargs):
            if tensor.is_cpu:
                continue
            found = index_of(tensor)
            if index is None:
                index = found
            elif index != found and plan.name not in _MANY_DEVICES:
                misplaced(plan, args, kwargs)
    if plan.device_at is not None:
        name = plan.names[plan.device_at]
        device = args[plan.device_at] if plan.device_at < len(args) else kwargs.get(name)
        index = devices.index_of_argument(device, index)
    if STATE.settings.single_device:
        single_device.bind(CURRENT.device if index is None else index)
    if index is not None:
        CURRENT.last = index
    return index or 0
