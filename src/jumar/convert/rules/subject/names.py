"""Tells what names of a training script stand for, and which values a call's arguments have."""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from jumar.convert.rules.subject.context import keyword
from jumar.convert.syntax.devices import callee_name
from jumar.convert.syntax.scopes import Scope, last_name
from jumar.convert.syntax.source import Source
from jumar.convert.syntax.tree import descendants, syntax_children

FLUENT = frozenset(
    {"to", "cuda", "npu", "cpu", "eval", "train", "half", "float", "double", "bfloat16", "requires_grad_"}
)
"""Methods that give back the object, or a copy of it on a device, that they are called on."""

_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


def descendants_here(node: cst.CSTNode) -> Iterator[cst.CSTNode]:
    """Yield `node` and the nodes in it that run when it runs: not the bodies of functions and classes defined there."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        if current is node or not isinstance(current, (cst.FunctionDef, cst.ClassDef, cst.Lambda)):
            stack.extend(reversed(list(syntax_children(current))))


def words_of(name: str) -> frozenset[str]:
    """Return the lower-case words of an identifier or text (`trainLoader`, `train_loader`: train, loader)."""
    return frozenset(word.lower() for word in _WORDS.findall(name))


def identifiers(node: cst.CSTNode) -> Iterator[str]:
    """Yield the identifiers in an expression, and the texts of its plain strings."""
    for found in descendants(node):
        if isinstance(found, cst.Name):
            yield found.value
        elif isinstance(found, cst.SimpleString) and isinstance(found.evaluated_value, str):
            yield found.evaluated_value


def peeled(node: cst.BaseExpression) -> cst.BaseExpression:
    """Return what stands before `.to(...)`, `.cuda()` and the like."""
    while isinstance(node, cst.Call) and isinstance(node.func, cst.Attribute) and node.func.attr.value in FLUENT:
        node = node.func.value
    return node


def root_name(node: cst.BaseExpression) -> cst.Name | None:
    """Return the name at the root of a chain of attributes, calls and subscripts, or None."""
    current: cst.CSTNode = node
    while True:
        if isinstance(current, cst.Name):
            return current
        if isinstance(current, (cst.Attribute, cst.Subscript)):
            current = current.value
        elif isinstance(current, cst.Call):
            current = current.func
        else:
            return None


def assigned_values(source: Source, name: str) -> list[cst.BaseExpression]:
    """Return everything this file assigns to a variable or attribute of this last name, in any scope."""
    found: list[cst.BaseExpression] = []
    for node in source.nodes(cst.Assign):
        for target in node.targets:
            found.extend(value for target_name, value in pairs(target.target, node.value) if target_name == name)
    for annotated in source.nodes(cst.AnnAssign):
        if annotated.value is not None and last_name(annotated.target) == name:
            found.append(annotated.value)
    return found


def pairs(target: cst.CSTNode, value: cst.BaseExpression) -> Iterator[tuple[str, cst.BaseExpression]]:
    """Yield the (last name, value) pairs of an assignment; tuples of the same length are taken apart."""
    if isinstance(target, (cst.Tuple, cst.List)) and isinstance(value, (cst.Tuple, cst.List)):
        if len(target.elements) == len(value.elements):
            for left, right in zip(target.elements, value.elements, strict=True):
                yield from pairs(left.value, right.value)
        return
    name = last_name(target)
    if name:
        yield name, value


def argument(call: cst.Call, index: int, name: str) -> cst.BaseExpression | None:
    """Return the value passed for the parameter `name` at position `index`, or None."""
    named = keyword(call, name)
    if named is not None:
        return named.value
    positional = [arg for arg in call.args if arg.keyword is None]
    if index < len(positional) and not any(arg.star for arg in positional[: index + 1]):
        return positional[index].value
    return None


def parameter_of(source: Source, call: cst.Call, given: cst.Arg) -> tuple[cst.FunctionDef, str] | None:
    """Return the function of this file that `call` runs, and the parameter `given` is bound to, or None."""
    if not isinstance(call.func, cst.Name) or given.star:
        return None
    bindings = source.scope(call.func).bindings_of(call.func.value)
    if len(bindings) != 1 or not isinstance(bindings[0].node, cst.FunctionDef):
        return None
    function = bindings[0].node
    if given.keyword is not None:
        return function, given.keyword.value
    index = list(call.args).index(given)
    if any(arg.star for arg in call.args[:index]):
        return None
    parameters = [*function.params.posonly_params, *function.params.params]
    return (function, parameters[index].name.value) if index < len(parameters) else None


def torch_name(source: Source, node: cst.CSTNode) -> str | None:
    """Return what the module `torch` is called where `node` stands, or None where it has no name."""
    here = source.scope(node)
    scope: Scope | None = here
    while scope is not None:
        for name in sorted(scope.bindings, key=lambda name: name != "torch"):
            if here.candidates(name) == ("torch",):
                return name
        scope = scope.parent
    return None


def is_free(source: Source, name: str) -> bool:
    """Tell whether nothing in this file is called `name`."""
    return all(node.value != name for node in source.nodes(cst.Name))


def method_calls(node: cst.CSTNode, name: str) -> Iterator[cst.Call]:
    """Yield calls of a method `name` that run when `node` runs."""
    for found in descendants_here(node):
        if isinstance(found, cst.Call) and isinstance(found.func, cst.Attribute) and callee_name(found) == name:
            yield found
