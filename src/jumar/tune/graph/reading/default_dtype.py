"""Operators that compute in PyTorch's default dtype, which no graph says: `x / 2` of integers.

A graph is computed in other processes, where the default is float32, and has the key that it has there.
"""

from __future__ import annotations

import torch

from jumar.tune.graph.graph import Graph, Node, scalars
from jumar.tune.model.errors import TuneError


def refuse_default_dtype(graph: Graph) -> None:
    """Raise TuneError for a graph that computes in the default dtype where that is not float32."""
    default = torch.get_default_dtype()
    if default is torch.float32:
        return
    node = first_in(graph, default)
    if node is not None:
        raise TuneError(
            f"{node.operator} computes in the default dtype, which must be float32 where the model names none; got "
            f"{default}. Name it in the model (x.to({default})), or leave the default as it is."
        )


def first_in(graph: Graph, default: torch.dtype) -> Node | None:
    """Return the first node of a graph captured under the dtype `default` that computes in it untold; None without."""
    names = {str(dtype).removeprefix("torch.") for dtype in (default, default.to_complex())}
    for value, node in enumerate(graph.nodes, start=len(graph.inputs)):
        spec = graph.spec_of(value)
        if spec is not None and spec.dtype in names and not _is_told(graph, node):
            return node
    return None


def _is_told(graph: Graph, node: Node) -> bool:
    """Tell whether a node's dtype is among its arguments, or that of a tensor that it reads."""
    specs = [graph.spec_of(value) for value in node.references()]
    if any(spec is None or "float" in spec.dtype or "complex" in spec.dtype for spec in specs):
        return True
    return any(isinstance(one, dict) and "dtype" in one for one in scalars([*node.arguments, *node.keywords.values()]))
