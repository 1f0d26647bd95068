"""What shows without trying: operators, dtypes and integers that an engine does not compute as PyTorch does.

Some engines compute integers in 32 bits, or as fractions; graphs in which that gives other values are refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from jumar.operators import has, has_any
from jumar.tune.engines.shared.cut import is_fill
from jumar.tune.engines.shared.lookups import LookUp, look_ups, sources
from jumar.tune.graph import Graph, Reference
from jumar.tune.graph.graph import GETITEM
from jumar.tune.model.machine import Machine

INTEGERS = frozenset({"int64", "int32", "int16", "int8", "uint8"})
EXACT = 1 << 24
"""Integers up to this size are exact also as float32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Range:
    """What an input's integers must be in, so that the engine computes what PyTorch does."""

    place: int
    """Among the variable inputs."""
    low: int
    high: int
    is_table: bool
    """They are places in a tensor: numbers of rows, of elements."""


def first_integer_refusal(graph: Graph) -> str:
    """Name the first operator that computes integers from what changes; empty when there is none."""
    changing = set(_changing(graph))
    for number, node in enumerate(graph.nodes):
        value = len(graph.inputs) + number
        if value not in changing or value in graph.effects or node.operator == GETITEM:
            continue
        read = [graph.spec_of(reference) for reference in node.references() if reference in changing]
        if not _is_harmless(node.operator) and any(spec is not None and spec.dtype in INTEGERS for spec in read):
            return f"{node.operator} computes with integers, for which OpenVINO has 32 bits only."
    return ""


def _is_harmless(operator: str) -> bool:
    """Tell whether an operator gives no integer greater than what it is given."""
    return has_any(operator, "aliases", "moves", "bounded")


def first_number_refusal(graph: Graph) -> str:
    """Name the first operator of integers with a number that 32 bits do not hold; empty when none has one."""
    for value, node in enumerate(graph.nodes, len(graph.inputs)):
        if node.operator == GETITEM or has(node.operator, "aliases"):  # ends of slices are as great as can be
            continue
        numbers = [one for one in [*node.arguments, *node.keywords.values()] if isinstance(one, int)]
        specs = [graph.spec_of(one) for one in (value, *node.references())]
        if any(spec is not None and spec.dtype in INTEGERS for spec in specs) and any(
            not -(1 << 31) <= number < 1 << 31 for number in numbers
        ):
            return f"{node.operator} has a number beyond 32 bits, in which OpenVINO computes integers."
    return ""


def ranges(graph: Graph) -> list[Range]:
    """Return what must be checked in each call."""
    places: dict[Reference, list[LookUp]] = {}
    for one in look_ups(graph):
        for source in sources(graph, one.index):
            places.setdefault(source, []).append(one)
    found = []
    for place, value in enumerate(graph.variables):
        if graph.inputs[value].dtype not in INTEGERS:
            continue
        if uses := places.get(value):
            low, high = max(one.low for one in uses), min(one.high for one in uses)
            found.append(Range(place=place, low=low, high=high, is_table=True))
        elif graph.inputs[value].dtype in {"int64", "int32"}:
            found.append(Range(place=place, low=-EXACT, high=EXACT, is_table=False))
    return found


def _changing(graph: Graph) -> Iterator[Reference]:
    """Yield the values that depend on variable inputs."""
    seen = set(graph.variables)
    yield from seen
    for number, node in enumerate(graph.nodes):
        if not is_fill(node.operator) and any(reference in seen for reference in node.references()):
            seen.add(len(graph.inputs) + number)
            yield len(graph.inputs) + number


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
