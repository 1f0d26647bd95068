"""What shows without trying: operators and dtypes that no engine beside PyTorch's own takes."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from jumar.operators import has
from jumar.tune.graph import Graph
from jumar.tune.graph.graph import GETITEM
from jumar.tune.model.machine import Machine

DTYPES = frozenset(
    "float32 float64 float16 bfloat16 int64 int32 int16 int8 uint8 bool".split()  # noqa: SIM905 - reads as a list
)


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
    if not operator.startswith("aten::"):
        return "is no operator of aten"
    if has(operator, "backward"):
        return "is an operator of a backward pass, which inference engines have not"
    if has(operator, "sized_by_values"):
        return "makes a tensor whose shape depends on values"
    if has(operator, "random"):
        return "draws random numbers"
    return ""


def not_here(name: str, modules: Iterable[str], machine: Machine) -> str:
    """Return why the engine `name`, which needs these modules, cannot be used on `machine`; empty when it can."""
    if machine.device != "cpu":
        return f"{name} is used on the CPU only, and the device is {machine.device}."
    missing = [module for module in modules if find_spec(module) is None]
    return f"{' and '.join(missing)} is not installed; pip install 'jumar[tune]'." if missing else ""


def installed_version(*distributions: str) -> str:
    """Return the version of the first of these distributions that is installed; empty when none is."""
    for name in distributions:
        try:
            return version(name)
        except PackageNotFoundError:
            continue
    return ""
