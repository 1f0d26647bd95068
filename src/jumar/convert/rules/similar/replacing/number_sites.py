"""Finds the places that name a device by its number, written out or computed."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from jumar.convert.rules.subject.context import keyword
from jumar.convert.syntax.devices import callee_name, place_of
from jumar.convert.syntax.literals import literal, literals
from jumar.convert.syntax.receivers import Receivers
from jumar.convert.syntax.scopes import is_named
from jumar.convert.syntax.source import Source

_INDEXED = re.compile(r"cuda:(\d+)")
_TAKES_DEVICE = frozenset(
    {"set_device", "device", "synchronize", "current_stream", "default_stream", "get_device_name"}
    | {"get_device_properties", "get_device_capability", "mem_get_info", "memory_allocated", "max_memory_allocated"}
    | {"memory_reserved", "max_memory_reserved", "memory_stats", "memory_summary", "reset_peak_memory_stats"}
    | {"utilization", "get_rng_state"}
)
_PARALLEL = ("DistributedDataParallel", "DataParallel", "DDP", "FullyShardedDataParallel")


@dataclass(frozen=True, slots=True)
class Site:
    """A place where a number stands: the literal, and the number."""

    node: cst.BaseExpression
    number: int
    text: bool = False
    """Whether the literal is a string, `cuda:0`."""


def sites(source: Source) -> Iterator[Site]:
    """Yield the places of a file where a device is named by a number."""
    yield from _strings(source)
    yield from _references(source)
    yield from _methods(source)


def _strings(source: Source) -> Iterator[Site]:
    for text in literals(source):
        match = _INDEXED.fullmatch(text.body) if text.num_fields == 0 else None
        if match is None or source.enclosing(text.node, cst.FormattedString, cst.MatchValue, cst.Index) is not None:
            continue
        parent = source.parent(text.node)
        if isinstance(parent, cst.DictElement) and parent.key is text.node:
            continue
        if place_of(source, text.node).certainty != "other":
            yield Site(text.node, int(match[1]), text=True)


def _references(source: Source) -> Iterator[Site]:
    """Yield numbers given to functions of torch by their device parameter."""
    for reference in source.references:
        call = reference.call
        if call is None or not reference.certain or not reference.name.startswith("torch."):
            continue
        if reference.name.startswith("torch.cuda.") and reference.name.rpartition(".")[2] in _TAKES_DEVICE:
            yield from _number(call.args[0].value if call.args and call.args[0].keyword is None else None)
        elif reference.name == "torch.device":
            index = keyword(call, "index")
            positional = [argument.value for argument in call.args if argument.keyword is None]
            yield from _number(index.value if index is not None else positional[-1] if positional else None)
        device = keyword(call, "device")
        yield from _number(device.value if device is not None else None)
        if reference.name.endswith(_PARALLEL):
            yield from _parallel(call)


def _parallel(call: cst.Call) -> Iterator[Site]:
    output = keyword(call, "output_device")
    yield from _number(output.value if output is not None else None)
    devices = keyword(call, "device_ids")
    if devices is not None and isinstance(devices.value, (cst.List, cst.Tuple)) and len(devices.value.elements) == 1:
        yield from _number(devices.value.elements[0].value)


def _methods(source: Source) -> Iterator[Site]:
    """Yield numbers given to `.cuda(0)` and `.to(0)`."""
    receivers = Receivers(source, "cuda")
    for node in source.methods:
        call = source.called(node)
        if call is None or node.attr.value not in ("cuda", "to"):
            continue
        if node.attr.value == "cuda" and receivers.classify(node.value) == "own":
            continue
        first = call.args[0].value if call.args and call.args[0].keyword in (None,) and not call.args[0].star else None
        device = keyword(call, "device")
        yield from _number(device.value if device is not None else first)


def _number(node: cst.BaseExpression | None) -> Iterator[Site]:
    if isinstance(node, cst.Integer):
        yield Site(node, int(node.evaluated_value))


def computed(source: Source) -> str:
    """Return the code of a device whose number the file computes (`f'cuda:{rank}'`, `.cuda(args.gpu)`), or nothing."""
    for node in source.nodes(cst.FormattedString):
        text = literal(source, node)
        if text is not None and text.is_indexed:
            return source.code(node)
    for call in source.nodes(cst.Call):
        if callee_name(call) == "cuda" and call.args and not _is_fixed(call.args[0]):
            return source.code(call.args[0].value)
        devices = keyword(call, "device_ids")
        if devices is not None and isinstance(devices.value, cst.List) and devices.value.elements:
            first = devices.value.elements[0].value
            if not isinstance(first, cst.Integer):
                return source.code(first)
    return ""


def _is_fixed(argument: cst.Arg) -> bool:
    """Tell whether an argument of `.cuda()` is written out, or is no device."""
    if argument.keyword is not None and argument.keyword.value != "device":
        return True
    value = argument.value
    return isinstance(value, (cst.Integer, cst.SimpleString)) or (is_named(value, "None"))
