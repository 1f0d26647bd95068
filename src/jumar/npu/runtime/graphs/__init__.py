"""`torch.npu.graphs`: work that is captured once and replayed."""

from __future__ import annotations

from jumar.npu.runtime.graphs.callables import make_graphed_callables
from jumar.npu.runtime.graphs.graph import (
    NPUGraph,
    graph,
    graph_pool_handle,
    is_current_stream_capturing,
)
from jumar.npu.runtime.graphs.handlers import NpuGraphOpHandler, register_npu_graph_handler
from jumar.npu.runtime.graphs.tasks import (
    graph_task_group_begin,
    graph_task_group_end,
    graph_task_update_begin,
    graph_task_update_end,
    super_kernel_scope_begin,
    super_kernel_scope_end,
)

__all__ = [
    "NPUGraph",
    "NpuGraphOpHandler",
    "graph",
    "graph_pool_handle",
    "graph_task_group_begin",
    "graph_task_group_end",
    "graph_task_update_begin",
    "graph_task_update_end",
    "is_current_stream_capturing",
    "make_graphed_callables",
    "register_npu_graph_handler",
    "super_kernel_scope_begin",
    "super_kernel_scope_end",
]
