"""`set_sync_debug_mode`: warn or raise where the host would wait for the device.

On the emulated device nothing waits. What makes an NPU's host wait counts as waiting: copies between
host and device that are not `non_blocking`, reading a value (`item()`), operators whose result's shape depends on
values (`nonzero`), and the `synchronize` of a stream.
"""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, Literal

import torch

from jumar.npu.core.events import OperatorEvent, listen
from jumar.npu.core.state import STATE

__all__ = ["get_sync_debug_mode", "set_sync_debug_mode"]

_MODES = {"default": 0, "warn": 1, "error": 2}
_OPTION = "sync_debug_mode"
_MESSAGE = "called a synchronizing NPU operation"

_listening = contextlib.ExitStack()


def set_sync_debug_mode(debug_mode: str | Literal[0, 1, 2]) -> None:
    """Choose what a synchronizing operation does: `default` or 0 nothing, `warn` or 1, `error` or 2.

    Raises RuntimeError for another mode. The mode ends with the `emulate` block it was set in.
    """
    mode = _MODES.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if mode not in (0, 1, 2):
        expected = "`default`, `warn`, `error`" if isinstance(debug_mode, str) else "0,1,2"
        raise RuntimeError(f"invalid value of debug_mode, expected one of {expected}")
    STATE.options[_OPTION] = mode
    _listen_or_not()


def get_sync_debug_mode() -> int:
    """Return the mode, 0 by default."""
    return int(STATE.options.get(_OPTION, 0))


def check_synchronizing(operation: str) -> None:
    """Warn or raise, as the mode says, for an operation that makes the host wait."""
    mode = get_sync_debug_mode()
    if mode == 2:
        raise RuntimeError(f"{_MESSAGE} ({operation})")
    if mode == 1:
        warnings.warn(f"{_MESSAGE} ({operation})", stacklevel=3)


def is_synchronizing(operator: str, args: Any, kwargs: Any, result: Any) -> bool:
    """Return whether this call of an operator (`aten::add.Tensor`) makes the host wait for the device."""
    if operator == "aten::_local_scalar_dense":
        return True
    if operator in ("aten::_to_copy", "aten::copy_"):
        return _crosses(operator, args, result) and not _non_blocking(operator, args, kwargs)
    return _has_dynamic_shape(operator)


def _crosses(operator: str, args: Any, result: Any) -> bool:
    """Return whether a copy is between the host and the device."""
    source = args[1] if operator == "aten::copy_" else args[0]
    both_tensors = isinstance(source, torch.Tensor) and isinstance(result, torch.Tensor)
    return both_tensors and source.is_cpu != result.is_cpu


def _non_blocking(operator: str, args: Any, kwargs: Any) -> bool:
    if operator == "aten::copy_" and len(args) > 2:
        return bool(args[2])
    return bool(kwargs.get("non_blocking", False))


def _has_dynamic_shape(operator: str) -> bool:
    namespace, _, name = operator.partition("::")
    base, _, overload = name.partition(".")
    packet = getattr(getattr(torch.ops, namespace), base, None)
    found = getattr(packet, overload or "default", None)
    return found is not None and torch.Tag.dynamic_output_shape in found.tags


def _told(event: OperatorEvent) -> None:
    if is_synchronizing(event.operator, event.args, event.kwargs, event.result):
        check_synchronizing(event.operator)


def _listen_or_not() -> None:
    _listening.close()
    if get_sync_debug_mode():
        _listening.enter_context(listen(_told))


STATE.on_settings.append(_listen_or_not)
