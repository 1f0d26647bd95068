"""`.cuda(...)` as `.to(...)` with the same arguments."""

from __future__ import annotations

import re

import libcst as cst

from jumar.migrate.edits import Replacement
from jumar.migrate.syntax.literals import literal
from jumar.migrate.syntax.source import Source
from jumar.migrate.targets.base import Edits, Rewrite
from jumar.migrate.targets.module_names import ModuleNames
from jumar.migrate.targets.spelling import around

_INDEX_NAME = re.compile(r"(^|_)(id|idx|ids|index|rank|num|number|ordinal|gpu|gpus)\d*$", re.IGNORECASE)
_DEVICE_NAME = re.compile(r"dev", re.IGNORECASE)


def move(source: Source, names: ModuleNames, call: cst.Call) -> Rewrite:
    """Write `x.to(...)`; a number (or None, the current device) becomes a device with that index."""
    assert isinstance(call.func, cst.Attribute)
    if any(arg.star == "*" for arg in call.args):
        return Rewrite(problem="unpacks its arguments, which .to() takes in another order", action="Write .to(...).")
    edits = [Replacement(*source.span(call.func.attr), "to")]
    first = _device_argument(call)
    keyword = "device=" if _is_storage(call.func.value) else ""
    if first is None:
        at = source.span(call.args[0])[0] if call.args else source.span(call)[1] - 1
        edits.append(Replacement(at, at, f"{keyword}{names.device_type}{', ' if call.args else ''}"))
        return Rewrite(edits=tuple(edits))
    start, end = source.outer_span(first.value)
    edits += _second(source, call)
    head = keyword if first.keyword is None else ""
    if not is_device(source, first.value):
        torch = names.torch_at(call)
        if torch is None:
            return Rewrite(problem="needs torch, which is another name here", action="Write .to(device).")
        head += f"{torch}.device({names.device_type}, "
        edits.append(Replacement(end, end, ")"))
    if head:
        edits.append(Replacement(start, start, head))
    return Rewrite(edits=tuple(edits))


def _device_argument(call: cst.Call) -> cst.Arg | None:
    """Return the argument that says where to, None when it is left open."""
    if call.args and call.args[0].keyword is None and not call.args[0].star:
        return call.args[0]
    return next((arg for arg in call.args if arg.keyword is not None and arg.keyword.value == "device"), None)


def _is_storage(node: cst.BaseExpression) -> bool:
    """Tell whether the object reads as a storage, whose .to() takes keywords only."""
    return isinstance(node, cst.Name) and node.value in ("storage", "stg")


def _second(source: Source, call: cst.Call) -> list[Replacement]:
    """Name the second positional argument, which is non_blocking for .cuda() and a dtype for .to()."""
    if len(call.args) < 2 or call.args[1].keyword is not None or call.args[1].star:
        return []
    at = source.span(call.args[1])[0]
    return [Replacement(at, at, "non_blocking=")]


def is_device(source: Source, node: cst.BaseExpression) -> bool:
    """Tell whether an argument of .cuda() is a device or the name of one, and not a number or None."""
    if isinstance(node, cst.BinaryOperation):
        return is_device(source, node.left)
    if literal(source, node) is not None or isinstance(node, cst.ConcatenatedString):
        return True
    if isinstance(node, cst.Call):
        is_format = isinstance(node.func, cst.Attribute) and literal(source, node.func.value) is not None
        return is_format or source.qualified(node.func) in ("torch.device", "builtins.str")
    name = node.attr.value if isinstance(node, cst.Attribute) else node.value if isinstance(node, cst.Name) else ""
    return _DEVICE_NAME.search(name) is not None and _INDEX_NAME.search(name) is None


def mover(source: Source, names: ModuleNames, node: cst.Attribute) -> Edits | None:
    """Write a function for `torch.Tensor.cuda`; a bound method has none that evaluates its object once."""
    if not (source.qualified(node) or "").startswith("torch."):
        return None
    opening, closing = around(source, node, "lambda")
    text = f"{opening}lambda value: value.to({names.device_type}){closing}"
    return (Replacement(*source.span(node), text),)
