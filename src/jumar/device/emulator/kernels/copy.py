"""Copies between devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from jumar.device.emulator import dispatch
from jumar.device.emulator.plans import CPU_KEYS

_CPU = torch.device("cpu")
_call = torch.library.get_kernel("aten::_to_copy", "CPU").call_boxed


def _to_copy(source: torch.Tensor, *, device: torch.device | None = None, **kwargs: Any) -> torch.Tensor:
    """`_to_copy`: a copy on `device` (default: where the source is), always of new memory."""
    target = source.device if device is None else device
    if target.type not in ("npu", "cpu"):
        kwargs["device"] = target
    else:
        kwargs["device"] = _CPU
    result = _call(CPU_KEYS, source if source.is_cpu else dispatch.alias(source), **kwargs)
    return dispatch.wrap(result) if target.type == "npu" else result  # type: ignore[no-any-return]


KERNELS: dict[str, Callable[..., Any]] = {"aten::_to_copy": _to_copy}
