"""Writes strings that name a device or a collective back end as expressions on the device variable."""

from __future__ import annotations

import re

import libcst as cst

from jumar.convert.model.edits import Replacement
from jumar.convert.syntax.literals import Literal, literal
from jumar.convert.syntax.source import Source
from jumar.convert.targets.agnostic.calls import tensor_type
from jumar.convert.targets.base import Edits
from jumar.convert.targets.expressions import filled_in, is_pure
from jumar.convert.targets.module_names import ModuleNames
from jumar.convert.targets.spelling import around, spaced

_SCRIPTED = ("torch.jit.script", "torch.jit.script_method")


def takes_expression(source: Source, node: cst.BaseExpression) -> bool:
    """Tell whether an expression may stand here: not in a type, and not in a scripted function."""
    if source.enclosing(node, cst.Annotation) is not None:
        return False
    subscript = source.enclosing(node, cst.Subscript)
    if subscript is not None and (source.qualified(subscript.value) or "").endswith(".Literal"):
        return False
    function = source.enclosing(node, cst.FunctionDef)
    decorators = function.decorators if function is not None else ()
    return not any(source.qualified(decorator.decorator) in _SCRIPTED for decorator in decorators)


def device(source: Source, names: ModuleNames, text: Literal) -> Edits | None:
    """Put the variable in place of the string, or into it where it carries an index."""
    parent = source.parent(text.node)
    if isinstance(parent, cst.MatchMappingElement):  # a key of a pattern cannot be an expression
        return None
    if isinstance(parent, cst.MatchValue) or (isinstance(parent, cst.Index) and text.is_bare):
        return _pattern(source, text) if isinstance(parent, cst.MatchValue) else _type(source, text, parent)
    is_late_key = isinstance(parent, cst.DictElement) and parent.key is text.node and not _is_before_cpu(source, parent)
    if is_late_key or not takes_expression(source, text.node):
        return None
    if text.is_tensor_type:
        return _tensor_type(source, names, text)
    if text.is_bare:
        return (spaced(source, source.span(text.node), names.device_type),)
    return (*filled(source, names, text), *_where_to_load(source, names, text))


def filled(source: Source, names: ModuleNames, text: Literal) -> Edits:
    """Put the variable in place of `cuda` within a string; what else it holds keeps its meaning in an f-string."""
    at = text.start + text.body.index("cuda")
    word = Replacement(at, at + 4, f"{{{names.device_type}}}")
    if isinstance(text.node, cst.FormattedString):
        return (word,)
    start, _ = source.span(text.node)
    old = text.node.prefix
    prefix = spaced(source, (start, start + len(old)), "f" + old.lower().replace("u", ""))
    braces = [
        Replacement(text.start + match.start(), text.start + match.end(), match.group() * 2)
        for match in re.finditer(r"[{}]", text.body)
    ]
    return (Replacement(prefix.start, prefix.end, prefix.text.rstrip()), word, *braces)


def _where_to_load(source: Source, names: ModuleNames, text: Literal) -> Edits:
    """Take the index off a CPU where a checkpoint is loaded: torch.load knows `cpu` and not `cpu:0`."""
    node = filled_in(source, text.node)
    if not _is_map_location(source, node) or not is_pure(source, node):
        return ()
    opening, closing = around(source, node, "conditional")
    start, end = source.span(node)
    cpu = f"{text.quote}cpu{text.quote}"
    before = (Replacement(start, start, opening),) if opening else ()
    return (*before, Replacement(end, end, f" if {names.device_type} != {cpu} else {cpu}{closing}"))


def _is_map_location(source: Source, node: cst.BaseExpression) -> bool:
    """Tell whether a string says where torch.load puts what it loads."""
    around_it = source.parent(node)
    while isinstance(around_it, (cst.IfExp, cst.DictElement, cst.Dict)):
        around_it = source.parent(around_it)
    if isinstance(around_it, cst.Assign):
        target = around_it.targets[0].target
        return isinstance(target, cst.Name) and target.value == "map_location"
    if not isinstance(around_it, cst.Arg):
        return False
    if around_it.keyword is not None:
        return around_it.keyword.value == "map_location"
    call = source.parent(around_it)
    return isinstance(call, cst.Call) and source.qualified(call.func) == "torch.load"


def _pattern(source: Source, text: Literal) -> Edits | None:
    """Name the accelerators one by one: a pattern cannot be an expression."""
    choice = source.enclosing(text.node, cst.MatchOr)
    if not text.is_bare or (choice is not None and f"npu{text.quote}" in source.code(choice)):
        return None
    end = source.span(text.node)[1]
    return (Replacement(end, end, f" | {text.quote}npu{text.quote}"),)


def _type(source: Source, text: Literal, index: cst.Index) -> Edits | None:
    """Add the accelerators to `Literal['cuda', 'cpu']`, whose values must be written out."""
    subscript = source.enclosing(index, cst.Subscript)
    if subscript is None or f"npu{text.quote}" in source.code(subscript):
        return None
    end = source.span(text.node)[1]
    return (Replacement(end, end, f", {text.quote}npu{text.quote}"),)


def _is_before_cpu(source: Source, element: cst.DictElement) -> bool:
    """Tell whether a key of the CPU comes later, so that it counts where both keys are the same."""
    table = source.parent(element)
    assert isinstance(table, cst.Dict)
    at = table.elements.index(element)
    later = [other.key for other in table.elements[at + 1 :] if isinstance(other, cst.DictElement)]
    return any((key := literal(source, node)) is not None and key.body == "cpu" for node in later)


def _tensor_type(source: Source, names: ModuleNames, text: Literal) -> Edits | None:
    """Put the type itself in place of its name, where a function takes either."""
    torch = names.torch_at(text.node)
    argument = source.parent(text.node)
    call = source.parent(argument) if isinstance(argument, cst.Arg) else None
    if torch is None or not isinstance(call, cst.Call):
        return None
    is_method = isinstance(call.func, cst.Attribute) and call.func.attr.value == "type"
    if not is_method and source.qualified(call.func) != "torch.set_default_tensor_type":
        return None
    kind = text.body.rpartition(".")[2]
    return (spaced(source, source.span(text.node), tensor_type(torch, names.device_type, kind, text.quote)),)


def backend(source: Source, names: ModuleNames, text: Literal, word: str) -> Edits | None:
    """Put the call `word`, which gives the device's back end, in place of `nccl`, or into a compound with it."""
    if not takes_expression(source, text.node) or isinstance(source.parent(text.node), cst.MatchValue):
        return None
    span = source.span(text.node)
    if text.body == "nccl":
        return (spaced(source, span, word),)
    if text.body.lower() == "nccl":
        return (spaced(source, span, f"{word}.upper()"),)
    opening, closing = around(source, text.node, "conditional")
    quote, kind = text.quote, names.device_type
    body = text.body.replace("cuda:nccl", f"{{{kind}}}:{{{word}}}")
    new = f"f{quote}{body}{quote} if {kind} != {quote}cpu{quote} else {quote}gloo{quote}"
    return (spaced(source, span, f"{opening}{new}{closing}"),)
