"""`torch.npu.graphs`: work that is captured once and replayed."""

from __future__ import annotations

from jumar.device.emulator.npu.graphs.callables import make_graphed_callables
from jumar.device.emulator.npu.graphs.graph import (
    NPUGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
)
from jumar.device.emulator.npu.graphs.scopes import super_kernel_scope_begin, super_kernel_scope_end

__all__ = [
    "NPUGraph",
    "graph",
    "graph_pool_handle",
    "is_current_stream_capturing",
    "make_graphed_callables",
    "super_kernel_scope_begin",
    "super_kernel_scope_end",
]
