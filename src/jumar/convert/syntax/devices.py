"""Tells where a `'cuda'` literal goes: to a device parameter, to something else, or to an unknown place.

A bare `'cuda'` is a word; it is a device only by its place. The place is judged by the callee, the
keyword, the parameter's name, the name it is assigned to, or the literals beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal as OneOf

import libcst as cst

from jumar.convert.model.words import DEVICE_WORDS, names_device, names_kernel
from jumar.convert.syntax.literals import literal
from jumar.convert.syntax.scopes import dotted_name, last_name
from jumar.convert.syntax.source import Source
from jumar.convert.syntax.tree import descendants

Certainty = OneOf["device", "unclear", "other"]

_TRANSPARENT = (cst.Element, cst.StarredElement, cst.BooleanOperation, cst.IfExp, cst.Tuple, cst.List, cst.Set)
_MAX_DEPTH = 6
_DEVICE_METHODS = frozenset({"to", "to_empty", "pin_memory"})
OPTION_CALLS = frozenset({"add_argument", "add_option", "option"})
"""Functions that declare a command-line option (argparse, optparse, click)."""
OPTION_NAME = "the name of an option"
_OPTION_TEXTS = frozenset({"dest", "help", "metavar", "action", "group"})
_FIELD_CALLS = frozenset({"field", "Field", "Option", "Argument", "attrib"})
"""Functions that give a field of a class, or a parameter, its default (dataclasses, pydantic, typer)."""
_TEXT_CALLS = frozenset({"print", "info", "debug", "warning", "error", "log", "write", "RuntimeError", "ValueError"})


@dataclass(frozen=True, slots=True)
class Place:
    """The judgement about one literal and what it rests on (`argument device of torch.zeros`)."""

    certainty: Certainty
    reason: str


def place_of(source: Source, node: cst.BaseExpression) -> Place:
    """Judge where the literal `node` goes."""
    beside = False
    child: cst.CSTNode = node
    parent = source.parent(child)
    while isinstance(parent, _TRANSPARENT):
        if isinstance(parent, cst.IfExp) and parent.test is child:
            return Place("other", "the truth of a literal")
        beside = beside or _has_device_word_beside(source, parent)
        child, parent = parent, source.parent(parent)
    place = _by_parent(source, child, parent)
    if place.certainty == "unclear" and beside:
        return Place("device", "another device stands beside it")
    return place


def _has_device_word_beside(source: Source, node: cst.CSTNode) -> bool:
    if isinstance(node, cst.IfExp):
        if _asks_for_cuda(source, node.test):
            return True
        others: list[cst.CSTNode] = [node.body, node.orelse]
    elif isinstance(node, (cst.Tuple, cst.List, cst.Set)):
        others = [element.value for element in node.elements]
    elif isinstance(node, cst.BooleanOperation):
        others = [node.left, node.right]
    else:
        return False
    return any(may_be_device_word(source, other) for other in others)


def _asks_for_cuda(source: Source, test: cst.CSTNode) -> bool:
    return any(
        isinstance(found, cst.Call) and source.qualified(found.func) == "torch.cuda.is_available"
        for found in descendants(test)
    )


def may_be_device_word(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether a value of an expression is another device's word: one side of a conditional expression or `or`."""
    if isinstance(node, cst.IfExp):
        return may_be_device_word(source, node.body) or may_be_device_word(source, node.orelse)
    if isinstance(node, cst.BooleanOperation):
        return may_be_device_word(source, node.left) or may_be_device_word(source, node.right)
    return is_device_word(source, node)


def is_device_word(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether a node is a literal that can only be a device: another device's name, or `cuda:` with an index."""
    found = literal(source, node)
    return found is not None and (found.is_indexed or found.body.lower().partition(":")[0] in DEVICE_WORDS)


def _by_parent(source: Source, child: cst.CSTNode, parent: cst.CSTNode | None) -> Place:
    if isinstance(parent, cst.Arg):
        return _by_argument(source, parent)
    if isinstance(parent, (cst.Assign, cst.AnnAssign, cst.NamedExpr)):
        return _by_assignment(source, parent)
    if isinstance(parent, cst.Param):
        return _by_names([parent.name.value], "default of")
    if isinstance(parent, cst.Return):
        return _by_return(source, parent)
    return _by_container(source, child, parent)


def _by_assignment(source: Source, node: cst.Assign | cst.AnnAssign | cst.NamedExpr) -> Place:
    """Judge by the names that are written; where they do not tell, by what else this file gives them."""
    place = _by_names(list(target_names(source, node)), "assigned to")
    if place.certainty != "unclear":
        return place
    targets = [target.target for target in node.targets] if isinstance(node, cst.Assign) else [node.target]
    if any(may_be_device_word(source, value) for target in targets for value in values_of(source, target)):
        return Place("device", f"{place.reason}, which is another device elsewhere")
    return place


def values_of(source: Source, node: cst.CSTNode) -> Iterator[cst.BaseExpression]:
    """Yield what this file assigns to a variable, or to an attribute of `self` of this name."""
    if isinstance(node, cst.Name):
        for binding in source.scope(node).bindings_of(node.value):
            if binding.value is not None:
                yield binding.value
            elif isinstance(binding.node, cst.Param) and binding.node.default is not None:
                yield binding.node.default
            else:
                yield from source.derived(_unpacked_values).get(binding.node, ())
    elif isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name):
        for target, value in source.derived(_attribute_values).get(node.attr.value, ()):
            if target == node.value.value:
                yield value


def _unpacked_values(source: Source) -> dict[cst.CSTNode, list[cst.BaseExpression]]:
    """Return the values that names get one by one from a tuple: `d, n = torch.device('cuda'), 3`."""
    found: dict[cst.CSTNode, list[cst.BaseExpression]] = {}
    for node in source.nodes(cst.Assign):
        for target in node.targets:
            names, values = target.target, node.value
            pairs = (cst.Tuple, cst.List)
            if isinstance(names, pairs) and isinstance(values, pairs) and len(names.elements) == len(values.elements):
                for name, value in zip(names.elements, values.elements, strict=True):
                    found.setdefault(name.value, []).append(value.value)
    return found


def _attribute_values(source: Source) -> dict[str, list[tuple[str, cst.BaseExpression]]]:
    """Return, by attribute, the objects and values of its assignments: `self.d = x` is (`self`, x) under `d`."""
    found: dict[str, list[tuple[str, cst.BaseExpression]]] = {}
    assigned: list[cst.Assign | cst.AnnAssign] = [*source.nodes(cst.Assign), *source.nodes(cst.AnnAssign)]
    for node in assigned:
        targets = [target.target for target in node.targets] if isinstance(node, cst.Assign) else [node.target]
        for target in targets:
            if isinstance(target, cst.Attribute) and isinstance(target.value, cst.Name) and node.value is not None:
                found.setdefault(target.attr.value, []).append((target.value.value, node.value))
    return found


def holds_device(source: Source, node: cst.CSTNode, depth: int = 0) -> bool:
    """Tell whether an expression is a `torch.device` as far as this file shows: made by it, read off a tensor, both."""
    if isinstance(node, cst.Call) and source.qualified(node.func) == "torch.device":
        return True
    if isinstance(node, cst.Attribute) and node.attr.value == "device":
        return True
    text = literal(source, node)
    if text is not None and text.is_indexed:
        return True
    if isinstance(node, cst.Name) and _is_annotated_device(source, node):
        return True
    return depth <= _MAX_DEPTH and any(holds_device(source, part, depth + 1) for part in _origins(source, node))


def _origins(source: Source, node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield the expressions that give an expression its value, or its text."""
    if isinstance(node, cst.IfExp):
        yield from (node.body, node.orelse)
    elif isinstance(node, cst.BooleanOperation):
        yield from (node.left, node.right)
    elif isinstance(node, cst.Call):
        if source.qualified(node.func) == "builtins.str" and len(node.args) == 1:
            yield node.args[0].value
        elif isinstance(node.func, cst.Name):
            yield from _returned(source, node.func)
    elif isinstance(node, cst.NamedExpr) or (isinstance(node, cst.Attribute) and node.attr.value == "type"):
        yield node.value
    else:
        yield from values_of(source, node)


def _returned(source: Source, name: cst.Name) -> Iterator[cst.BaseExpression]:
    """Yield what a function of this file returns."""
    functions = [binding.node for binding in source.scope(name).bindings_of(name.value)]
    for statement in source.nodes(cst.Return):
        if statement.value is not None and source.enclosing(statement, cst.FunctionDef) in functions:
            yield statement.value


def _is_annotated_device(source: Source, node: cst.Name) -> bool:
    notes = [
        binding.node.annotation.annotation
        for binding in source.scope(node).bindings_of(node.value)
        if isinstance(binding.node, cst.Param) and binding.node.annotation is not None
    ]
    return any(source.qualified(part) == "torch.device" for note in notes for part in descendants(note))


def _by_container(source: Source, child: cst.CSTNode, parent: cst.CSTNode | None) -> Place:
    if isinstance(parent, cst.DictElement):
        if parent.key is child:
            return _by_lookups(source, parent)
        key = literal(source, parent.key)
        return _by_names([key.body] if key else [], "value of the key")
    if isinstance(parent, cst.MatchValue):
        return _by_subject(source, parent)
    if isinstance(parent, (cst.For, cst.CompFor)):
        return _by_names([dotted_name(parent.target) or ""], "looped over as")
    if isinstance(parent, (cst.Index, cst.Slice)):
        return _by_index(source, parent)
    return Place("unclear", "its use is not known")


def _by_index(source: Source, node: cst.CSTNode) -> Place:
    subscript = source.enclosing(node, cst.Subscript)
    if subscript is not None and (source.qualified(subscript.value) or "").endswith(".Literal"):
        return _by_annotated(source, subscript)
    return Place("other", "a key")


def _by_annotated(source: Source, node: cst.CSTNode) -> Place:
    """Judge a value of `Literal[...]` by what is annotated with it."""
    for around in source.ancestors(node):
        if isinstance(around, cst.Param):
            return _by_names([around.name.value], "a type of")
        if isinstance(around, cst.AnnAssign):
            return _by_names(list(target_names(source, around)), "a type of")
    return Place("unclear", "a type")


def _by_subject(source: Source, pattern: cst.MatchValue) -> Place:
    """Judge a pattern by what is matched: `match x.device.type:`."""
    match = source.enclosing(pattern, cst.Match)
    if match is None or source.enclosing(pattern, cst.MatchList, cst.MatchTuple, cst.MatchMapping, cst.MatchClass):
        return Place("unclear", "part of a pattern")
    return Place("device", "matched with a device") if reads_device(match.subject) else Place("unclear", "a pattern")


def reads_device(node: cst.BaseExpression) -> bool:
    """Tell whether an expression reads as a device: `device`, `x.device.type`, `str(device)`, `args.device`."""
    if isinstance(node, cst.Call):
        return len(node.args) == 1 and callee_name(node) == "str" and reads_device(node.args[0].value)
    if isinstance(node, cst.Attribute) and node.attr.value == "type":
        return reads_device(node.value)
    name = last_name(node)
    return bool(name) and names_device(name) and not names_kernel(name)


def _by_lookups(source: Source, element: cst.DictElement) -> Place:
    """Judge a key by how the dictionary is read: a table that is only looked up by devices has devices for keys."""
    table = source.parent(element)
    reads = list(_lookups(source, table)) if isinstance(table, cst.Dict) else []
    if reads and all(index is not None and reads_device(index) for index in reads):
        return Place("device", "a key that devices look up")
    return Place("other", "a dictionary key")


def _lookups(source: Source, table: cst.Dict) -> Iterator[cst.BaseExpression | None]:
    """Yield what a dictionary is looked up by; None for any other use of it."""
    parent = source.parent(table)
    if isinstance(parent, cst.Assign) and len(parent.targets) == 1 and isinstance(parent.targets[0].target, cst.Name):
        target = parent.targets[0].target
        for name in source.nodes(cst.Name):
            if name.value == target.value and name is not target:
                yield _index_of(source, name)
    elif not isinstance(parent, cst.Assign):
        yield _index_of(source, table)


def _index_of(source: Source, node: cst.BaseExpression) -> cst.BaseExpression | None:
    parent = source.parent(node)
    if isinstance(parent, cst.Subscript) and parent.value is node and len(parent.slice) == 1:
        index = parent.slice[0].slice
        return index.value if isinstance(index, cst.Index) else None
    if isinstance(parent, cst.Attribute) and parent.attr.value == "get":
        call = source.called(parent)
        return call.args[0].value if call is not None and call.args else None
    return None


def _by_names(names: list[str], how: str) -> Place:
    for name in names:
        if names_device(name):
            return Place("device", f"{how} {name}")
    for name in names:
        if names_kernel(name):
            return Place("other", f"{how} {name}")
    return Place("unclear", f"{how} {', '.join(name for name in names if name)}".strip())


def target_names(source: Source, node: cst.Assign | cst.AnnAssign | cst.NamedExpr) -> Iterator[str]:
    """Yield the last name, attribute or literal key of each target an assignment writes."""
    targets = [target.target for target in node.targets] if isinstance(node, cst.Assign) else [node.target]
    for target in targets:
        if isinstance(target, cst.Name):
            yield target.value
        elif isinstance(target, cst.Attribute):
            yield target.attr.value
        elif isinstance(target, cst.Subscript):
            for element in target.slice:
                if isinstance(element.slice, cst.Index):
                    key = literal(source, element.slice.value)
                    if key is not None:
                        yield key.body
        elif isinstance(target, (cst.Tuple, cst.List)):
            yield from (element.value.value for element in target.elements if isinstance(element.value, cst.Name))


def _by_return(source: Source, node: cst.Return) -> Place:
    function = source.enclosing(node, cst.FunctionDef)
    if function is None:
        return Place("unclear", "returned")
    place = _by_names([function.name.value], "returned by")
    if place.certainty == "unclear" and _returns_device_word(source, function):
        return Place("device", f"{function.name.value} returns devices")
    return place


def _returns_device_word(source: Source, function: cst.FunctionDef) -> bool:
    return any(
        node.value is not None and may_be_device_word(source, node.value)
        for node in source.nodes(cst.Return)
        if source.enclosing(node, cst.FunctionDef) is function
    )


def _by_argument(source: Source, argument: cst.Arg) -> Place:
    call = source.parent(argument)
    if not isinstance(call, cst.Call):
        return Place("unclear", "a class keyword")
    if callee_name(call) in OPTION_CALLS:
        return _by_option(source, call, argument)
    if callee_name(call) in _FIELD_CALLS:
        return _by_container_of_field(source, call)
    if argument.keyword is not None:
        if source.qualified(call.func) == "torch.device":
            return Place("device", "argument of torch.device")
        return _by_names([argument.keyword.value], "argument")
    return _by_position(source, call, argument)


def _by_container_of_field(source: Source, call: cst.Call) -> Place:
    return _by_parent(source, call, source.parent(call))


def _by_position(source: Source, call: cst.Call, argument: cst.Arg) -> Place:
    callee = callee_name(call)
    qualified = source.qualified(call.func) or ""
    if qualified.split(".")[-1] in ("getattr", "hasattr", "setattr", "isinstance") or callee in _TEXT_CALLS:
        return Place("other", f"argument of {callee}")
    if qualified.startswith(("torch.", "torch_npu.")):
        return Place("device", f"argument of {qualified}")
    if isinstance(call.func, cst.Attribute) and callee in _DEVICE_METHODS:
        return Place("device", f"argument of .{callee}()")
    if isinstance(call.func, cst.Attribute) and callee in ("get", "pop", "setdefault") and call.args[0] is argument:
        return Place("other", "a key")
    parameter = _parameter_name(source, call, argument)
    if parameter is not None:
        return _by_names([parameter], "parameter")
    return Place("device", f"argument of {callee}()") if names_device(callee) else Place("unclear", "an argument")


def _parameter_name(source: Source, call: cst.Call, argument: cst.Arg) -> str | None:
    """Return the parameter a positional argument binds to, for functions defined in this file."""
    index = list(call.args).index(argument)
    if not isinstance(call.func, cst.Name) or any(arg.star for arg in call.args[: index + 1]):
        return None
    bindings = source.scope(call.func).bindings_of(call.func.value)
    if len(bindings) != 1:
        return None
    definition = bindings[0].node
    if isinstance(definition, cst.ClassDef):
        scope = source.tree.own_scopes[definition]
        made_by = scope.bindings.get("__init__", [])
        definition = made_by[0].node if made_by else definition
        index += 1
    if not isinstance(definition, cst.FunctionDef):
        return None
    parameters = [*definition.params.posonly_params, *definition.params.params]
    return parameters[index].name.value if index < len(parameters) else None


def callee_name(call: cst.Call) -> str:
    """Return the last name of what is called (`to` of `x.y.to(...)`), empty for other callees."""
    if isinstance(call.func, cst.Attribute):
        return call.func.attr.value
    return call.func.value if isinstance(call.func, cst.Name) else ""


def option_names(source: Source, call: cst.Call) -> list[str]:
    """Return the names an `add_argument` call gives its option, without dashes (`--dist-backend`: dist_backend)."""
    names = [literal(source, arg.value) for arg in call.args if arg.keyword is None and not arg.star]
    dest = [literal(source, arg.value) for arg in call.args if arg.keyword is not None and arg.keyword.value == "dest"]
    return [name.body.lstrip("-").replace("-", "_") for name in (*dest, *names) if name is not None]


def _by_option(source: Source, call: cst.Call, argument: cst.Arg) -> Place:
    if argument.keyword is not None and argument.keyword.value in _OPTION_TEXTS:
        return Place("other", OPTION_NAME)
    place = _by_names(option_names(source, call), "option")
    if place.certainty == "unclear" and _option_has_device_word(source, call):
        return Place("device", "the option's other values are devices")
    return place


def _option_has_device_word(source: Source, call: cst.Call) -> bool:
    for argument in call.args:
        if argument.keyword is not None and argument.keyword.value in ("choices", "default"):
            values = argument.value.elements if isinstance(argument.value, (cst.List, cst.Tuple, cst.Set)) else ()
            if any(is_device_word(source, element.value) for element in values):
                return True
    return False


def device_identifiers(source: Source) -> frozenset[str]:
    """Return options, variables and attributes of this file that hold a device though their name does not say so."""
    found: set[str] = set()
    for call in source.nodes(cst.Call):
        if callee_name(call) in OPTION_CALLS and _option_has_device_word(source, call):
            found.update(option_names(source, call))
    assigned: list[cst.Assign | cst.AnnAssign] = [*source.nodes(cst.Assign), *source.nodes(cst.AnnAssign)]
    for node in assigned:
        value = node.value
        if isinstance(value, cst.IfExp) and may_be_device_word(source, value):
            found.update(target_names(source, node))
    return frozenset(name for name in found if name and not names_kernel(name))
