"""Traits that follow from an operator's schema and tags: `of_overload` reads a live `OpOverload`.

The script `scripts/build_operators.py` writes them down for every operator of PyTorch and of the vendor; the observer
computes them for operators of other libraries. Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from jumar.operators.names import is_foreach, is_in_place, parse

WORDS = {
    "view": "Returns an alias of an argument that it does not write.",
    "view_copy": "Copies what the view of the same name would show.",
    "inplace_view": "Changes the shape or memory of its first argument, not its values.",
    "in_place": "Writes its first argument and returns it.",
    "out": "Writes into arguments that are given for its results.",
    "draws": "May draw random numbers.",
    "factory": "Makes a tensor of a given type and device.",
    "like": "Makes a tensor after the look of another and reads none of its values.",
    "query": "Tells the host a number or a choice and calculates no tensor.",
    "to_host": "Returns a number to Python: the host waits for the device.",
    "dynamic_shape": "The shape of its result depends on values.",
    "pointwise": "An element of the output depends on the elements of the inputs at its own place only.",
    "reduction": "Reduces over dimensions.",
    "composite": "PyTorch composes it of other operators on every device.",
    "backward": "Computes a gradient.",
    "foreach": "One call stands for one call for each tensor of its lists.",
    "collective": "Communicates between ranks.",
    "marker": "Marks a place for a profiler and computes nothing.",
}
"""Computed traits and their meaning, in the order of their bits in `computed.json`."""

_TAGS = {
    "view_copy": "view_copy",
    "inplace_view": "inplace_view",
    "out": "out",
    "nondeterministic_seeded": "draws",
    "data_dependent_output": "to_host",
    "dynamic_output_shape": "dynamic_shape",
    "pointwise": "pointwise",
    "reduction": "reduction",
}
_COLLECTIVE = frozenset({"c10d", "c10d_functional", "_c10d_functional", "_c10d_functional_autograd"})
_OPTIONS = frozenset({"dtype", "layout", "device"})
_OF_WHOLE = frozenset({"pointwise", "reduction", "composite"})
_CASTS = ("to", "_to_", "sparse", "_sparse", "_nested", "nested")


class Computed(NamedTuple):
    """Traits, and the positions of the arguments that are written."""

    traits: frozenset[str]
    writes: tuple[int, ...]


def of_overload(overload: Any) -> Computed:
    """Return what the schema and tags of a `torch._ops.OpOverload` say."""
    tags = frozenset(str(getattr(tag, "name", tag)) for tag in getattr(overload, "tags", ()))
    return of_schema(overload._schema, tags)


def of_schema(schema: Any, tags: Iterable[str] = ()) -> Computed:
    """Return what a `torch.FunctionSchema` and the names of its tags say."""
    arguments, returns = schema.arguments, schema.returns
    writes = tuple(place for place, argument in enumerate(arguments) if _is_written(argument))
    found = {_TAGS[tag] for tag in tags if tag in _TAGS}
    found |= _by_name(schema.name)
    if any(item.alias_info is not None and not item.alias_info.is_write for item in returns):
        found.add("view")
    if any(argument.is_out for argument in arguments):
        found.add("out")
    elif writes and is_in_place(schema.name):
        found.add("in_place")
    if any("Generator" in str(argument.type) for argument in arguments):
        found.add("draws")
    found |= _of_result(schema, writes)
    return Computed(frozenset(found), writes)


def merged(overloads: Mapping[str, Computed]) -> Computed:
    """Return what is true of an operator whose overload is not named.

    It has a trait when one of its overloads has it; `out` overloads do not count. It has `pointwise`, `reduction` and
    `composite` when its unnamed overload has them, or all overloads.
    """
    plain = [found for found in overloads.values() if "out" not in found.traits] or list(overloads.values())
    some = frozenset[str]().union(*(traits for traits, _ in plain))
    every = frozenset(WORDS).intersection(*(traits for traits, _ in plain))
    unnamed = overloads.get("")
    decided = every if unnamed is None else unnamed.traits
    return Computed(some - _OF_WHOLE | decided & _OF_WHOLE, plain[0].writes)


def of_name(name: str) -> frozenset[str]:
    """Return what the name of an unknown operator tells."""
    return frozenset(_by_name(name) | ({"in_place"} if is_in_place(name) else set()))


def _by_name(name: str) -> set[str]:
    namespace, base, _ = parse(name)
    tests = {
        "backward": "backward" in base or (namespace == "npu" and "_grad" in base),
        "foreach": is_foreach(name),
        "collective": namespace in _COLLECTIVE,
        "marker": namespace == "profiler",
    }
    return {trait for trait, is_so in tests.items() if is_so}


def _of_result(schema: Any, writes: tuple[int, ...]) -> set[str]:
    returns_tensor = any("Tensor" in str(item.type) for item in schema.returns)
    if not returns_tensor:
        return {"query"} if schema.returns and not writes else set()
    names = {argument.name for argument in schema.arguments}
    base = parse(schema.name).base
    if not names >= _OPTIONS or base.startswith(_CASTS):
        return set()
    return {"factory", "like"} if base.endswith("_like") or base.startswith("new_") else {"factory"}


def _is_written(argument: Any) -> bool:
    return argument.alias_info is not None and bool(argument.alias_info.is_write)
