"""What shows without trying: operators and dtypes that no engine beside PyTorch's own takes."""

from __future__ import annotations

from jumar.tune.engines.cut import base_name
from jumar.tune.graph import Graph
from jumar.tune.graph.graph import GETITEM

DTYPES = frozenset(
    "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split()  # noqa: SIM905 - reads as a list
)
RANDOM = ("rand", "bernoulli", "multinomial", "normal_", "dropout", "poisson", "exponential")
VALUES_MAKE_SHAPES = frozenset({"nonzero", "masked_select", "unique", "_unique2", "unique_consecutive", "unique_dim"})


def first_refusal(graph: Graph, dtypes: frozenset[str] = DTYPES) -> str:
    """Return why `graph` cannot be handed to another engine, as one sentence; empty when nothing shows."""
    for spec in [*graph.inputs, *(spec for spec in graph.values if spec is not None)]:
        if 0 in spec.shape:
            return "the graph holds an empty tensor, which the engine does not take."
        if spec.dtype not in dtypes:
            return f"the graph holds {spec.dtype}, which the engine does not compute in."
    for node in graph.nodes:
        if node.operator != GETITEM and (why := _refused(node.operator)):
            return f"{node.operator} {why}."
    return ""


def _refused(operator: str) -> str:
    name = base_name(operator)
    if not operator.startswith("aten::"):
        return "is no operator of aten"
    if name.endswith(("_backward", "_backward_data")):
        return "is an operator of a backward pass, which inference engines have not"
    if name in VALUES_MAKE_SHAPES:
        return "makes a tensor whose shape depends on values"
    if name != "dropout" and name.startswith(RANDOM):
        return "draws random numbers"
    return ""
