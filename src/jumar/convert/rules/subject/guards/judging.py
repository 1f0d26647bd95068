"""Tells what a device test decides: that an accelerator is there, or that a CUDA-only kernel is chosen.

The first kind is converted, the second is not: left alone it is false on the NPU, and the program
takes the path it already has for every other device. The judgement rests on names: those beside the
test, the name its value gets, the function it stands in, and what the guarded code calls, selects, stores or imports.
Where a variable, an attribute or a function's result holds the test's value, `uses_of_value` finds what asks for it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

import libcst as cst

from jumar.convert.model.words import calls_cuda_only, is_cuda_only
from jumar.convert.rules.subject.guards.cuda_only import cuda_only_names, moves_data
from jumar.convert.rules.subject.guards.sites import Site, site_of
from jumar.convert.syntax.alternatives import has_twin
from jumar.convert.syntax.devices import callee_name
from jumar.convert.syntax.literals import literal
from jumar.convert.syntax.scopes import last_name
from jumar.convert.syntax.source import Source

_MAX_USES = 64
_MAX_DEPTH = 4


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a guard decides, and the names it was judged by."""

    kind: Literal["accelerator", "kernel", "handled"]
    """`handled`: the program has a name for the NPU beside this one."""
    evidence: tuple[str, ...] = ()
    guarded: tuple[cst.CSTNode, ...] = ()
    """Code that runs only where the test finds CUDA."""
    mixed: tuple[tuple[cst.CSTNode, str], ...] = ()
    """Uses of an accelerator test's value that lead to CUDA-only code all the same, each with a name of that code."""


def judge(
    source: Source,
    node: cst.CSTNode,
    *,
    negative: bool = False,
    availability: bool = False,
    is_edited: Callable[[cst.CSTNode], bool] = lambda _node: False,
) -> Verdict:
    """Judge the test `node`.

    `negative`: the test is true where CUDA is *not* there (`!= 'cuda'`). `availability`: it asks for
    the machine (`torch.cuda.is_available()`) and not for a tensor's device, so a body that does
    both, moving data and choosing a kernel, is about the accelerator. `is_edited` tells what an edit
    replaces already: that no longer speaks for CUDA.
    """
    site = site_of(source, node, negative)
    verdict = _judge(source, site, is_edited, availability=availability)
    if verdict.kind != "accelerator":
        return verdict
    kernels: list[tuple[cst.CSTNode, Verdict]] = []
    has_mover = any(moves_data(source, part) for part in site.guarded)
    for use, used in uses_of_value(source, site):
        found = _judge(source, used, is_edited, availability=availability)
        if found.kind == "kernel":
            kernels.append((use, found))
        else:
            has_mover = has_mover or any(moves_data(source, part) for part in used.guarded)
    if not kernels:
        return verdict
    if has_mover:
        return Verdict("accelerator", mixed=tuple((use, found.evidence[0]) for use, found in kernels))
    names = dict.fromkeys(name for _, found in kernels for name in found.evidence)
    return Verdict("kernel", tuple(names), tuple(part for _, found in kernels for part in found.guarded))


def _judge(source: Source, site: Site, is_edited: Callable[[cst.CSTNode], bool], *, availability: bool) -> Verdict:
    """Judge one place by the names around it."""
    twins = tuple(dict.fromkeys(name for name in (*site.near, *site.flags) if has_twin(source, name)))
    if twins:
        return Verdict("handled", twins)
    named = [name for name in (*site.near, *site.flags) if is_cuda_only(name)]
    near = tuple(dict.fromkeys([*named, *(name for name in site.near if calls_cuda_only(name))]))
    if near:
        return Verdict("kernel", near, tuple(site.guarded))

    def only(part: cst.CSTNode) -> Iterator[str]:
        return cuda_only_names(source, part, is_edited, helpers=not availability)

    called = tuple(dict.fromkeys(name for part in site.guarded for name in only(part)))
    if called and not (availability and any(moves_data(source, part) for part in site.guarded)):
        return Verdict("kernel", called, tuple(site.guarded))
    return Verdict("accelerator")


def uses_of_value(
    source: Source, site: Site, depth: int = 0, seen: set[cst.CSTNode] | None = None
) -> Iterator[tuple[cst.CSTNode, Site]]:
    """Yield the places where this file asks for a stored, returned or passed outcome, and where it goes from there."""
    visited = set() if seen is None else seen
    if depth > _MAX_DEPTH:
        return
    for holder, negative in site.holders:
        for use in list(_reads(source, holder))[:_MAX_USES]:
            if use in visited or len(visited) >= _MAX_USES:
                continue
            visited.add(use)
            used = site_of(source, use, negative)
            yield use, used
            yield from uses_of_value(source, used, depth + 1, visited)


def _reads(source: Source, holder: cst.CSTNode) -> Iterator[cst.CSTNode]:
    if isinstance(holder, cst.Return):
        yield from _calls(source, holder)
    elif isinstance(holder, cst.Lambda):
        yield from _calls_of_lambda(source, holder)
    elif isinstance(holder, cst.Param):
        yield from _reads_of_parameter(source, holder)
    elif isinstance(holder, cst.Arg):
        yield from _reads_of_argument(source, holder)
    elif isinstance(holder, cst.DictElement):
        key = literal(source, holder.key)
        yield from _lookups(source, key.body) if key is not None else ()
    elif isinstance(holder, cst.Assign):
        for target in holder.targets:
            yield from _reads_of_target(source, target.target)
    else:
        yield from _reads_of_target(
            source, holder.target if isinstance(holder, (cst.AnnAssign, cst.NamedExpr)) else holder
        )


def _reads_of_target(source: Source, target: cst.CSTNode) -> Iterator[cst.CSTNode]:
    if isinstance(target, cst.Name):
        yield from _names(source, target.value, source.scope(target).home(target.value))
        if isinstance(source.enclosing(target, cst.FunctionDef, cst.ClassDef), cst.ClassDef):
            yield from _attributes(source, target.value)
    elif isinstance(target, cst.Attribute):
        yield from _attributes(source, target.attr.value)
    elif isinstance(target, cst.Subscript) and len(target.slice) == 1:
        index = target.slice[0].slice
        key = literal(source, index.value) if isinstance(index, cst.Index) else None
        yield from _lookups(source, key.body) if key is not None else ()


def _reads_of_parameter(source: Source, parameter: cst.Param) -> Iterator[cst.CSTNode]:
    function = source.enclosing(parameter, cst.FunctionDef, cst.Lambda)
    if function is not None and function in source.tree.own_scopes:
        yield from _names(source, parameter.name.value, source.tree.own_scopes[function])


def _reads_of_argument(source: Source, argument: cst.Arg) -> Iterator[cst.CSTNode]:
    call = source.parent(argument)
    if not isinstance(call, cst.Call):
        return
    if callee_name(call) in ("dict", "update") and argument.keyword is not None:
        yield from _lookups(source, argument.keyword.value)
        return
    parameter = parameter_of(source, call, argument)
    if parameter is not None:
        yield from _reads_of_parameter(source, parameter)
        return
    name = _attribute_set(source, call, argument)
    yield from _attributes(source, name) if name else ()


def _attribute_set(source: Source, call: cst.Call, argument: cst.Arg) -> str:
    """Return the attribute that an argument sets (`setattr(self, 'fast', x)`, `Options(fast=x)`), empty for none."""
    if callee_name(call) == "setattr" and len(call.args) == 3:
        key = literal(source, call.args[1].value)
        return key.body if key is not None else ""
    is_class = callee_name(call)[:1].isupper() and not (source.qualified(call.func) or "").startswith("torch.")
    return argument.keyword.value if argument.keyword is not None and is_class else ""


def _lookups(source: Source, key: str) -> Iterator[cst.CSTNode]:
    """Yield where this file looks a key up: `options['fast']`, `options.get('fast')`."""
    for subscript in source.nodes(cst.Subscript):
        element = subscript.slice[0].slice if len(subscript.slice) == 1 else None
        found = literal(source, element.value) if isinstance(element, cst.Index) else None
        if found is not None and found.body == key and subscript not in source.tree.stored:
            yield subscript
    for call in source.nodes(cst.Call):
        found = literal(source, call.args[0].value) if call.args and callee_name(call) in ("get", "pop") else None
        if found is not None and found.body == key:
            yield call


def _calls(source: Source, statement: cst.Return) -> Iterator[cst.CSTNode]:
    """Yield the calls of the function that returns the outcome; reads of it where it is a property."""
    function = source.enclosing(statement, cst.FunctionDef, cst.Lambda)
    if not isinstance(function, cst.FunctionDef):
        return
    name = function.name.value
    if any(last_name(decorator.decorator).endswith("property") for decorator in function.decorators):
        yield from _attributes(source, name)
    is_method = isinstance(source.enclosing(function, cst.FunctionDef, cst.ClassDef), cst.ClassDef)
    for call in source.nodes(cst.Call):
        if callee_name(call) == name and isinstance(call.func, cst.Attribute if is_method else cst.Name):
            yield call


def _calls_of_lambda(source: Source, function: cst.Lambda) -> Iterator[cst.CSTNode]:
    statement = source.parent(function)
    targets = [target.target for target in statement.targets] if isinstance(statement, cst.Assign) else []
    for target in targets:
        for read in _called(source, target):
            call = source.called(read)
            if call is not None:
                yield call


def _called(source: Source, target: cst.CSTNode) -> Iterator[cst.CSTNode]:
    if isinstance(target, cst.Name):
        yield from _names(source, target.value, source.scope(target).home(target.value))
    elif isinstance(target, cst.Attribute):
        yield from (node for node in source.nodes(cst.Attribute) if node.attr.value == target.attr.value)


def _names(source: Source, name: str, home: object) -> Iterator[cst.CSTNode]:
    for node in source.derived(_names_by_text).get(name, ()):
        if source.scope(node).home(name) is home:
            yield node


def _names_by_text(source: Source) -> dict[str, list[cst.Name]]:
    """Return the names that this file reads, by their text."""
    found: dict[str, list[cst.Name]] = {}
    for node in source.nodes(cst.Name):
        if node not in source.tree.stored and node in source.tree.scopes:
            found.setdefault(node.value, []).append(node)
    return found


def _attributes(source: Source, name: str) -> Iterator[cst.CSTNode]:
    for node in source.nodes(cst.Attribute):
        if node.attr.value == name and node not in source.tree.stored and source.called(node) is None:
            yield node


def parameter_of(source: Source, call: cst.Call, argument: cst.Arg) -> cst.Param | None:
    """Return the parameter that an argument binds to, for functions, classes and methods of this file."""
    definition, num_bound = _definition(source, call)
    if definition is None or argument.star:
        return None
    parameters = [*definition.params.posonly_params, *definition.params.params]
    if argument.keyword is not None:
        named = [*parameters, *definition.params.kwonly_params]
        return next((each for each in named if each.name.value == argument.keyword.value), None)
    index = list(call.args).index(argument) + num_bound
    return parameters[index] if index < len(parameters) and not any(arg.star for arg in call.args) else None


def _definition(source: Source, call: cst.Call) -> tuple[cst.FunctionDef | None, int]:
    """Return the function of this file that a call runs, and how many parameters the call does not give."""
    scope, name, num_bound = None, callee_name(call), 0
    if isinstance(call.func, cst.Name):
        scope = source.scope(call.func)
    elif isinstance(call.func, cst.Attribute) and isinstance(call.func.value, cst.Name):
        owner = source.enclosing(call, cst.ClassDef) if call.func.value.value in ("self", "cls") else None
        scope, num_bound = (source.tree.own_scopes[owner], 1) if owner is not None else (None, 0)
    bindings = scope.bindings_of(name) if scope is not None else []
    definition = bindings[0].node if len(bindings) == 1 else None
    if isinstance(definition, cst.ClassDef):
        made_by = source.tree.own_scopes[definition].bindings.get("__init__", [])
        definition, num_bound = (made_by[0].node, 1) if made_by else (None, 0)
    if not isinstance(definition, cst.FunctionDef):
        return None, 0
    is_static = any(last_name(each.decorator) == "staticmethod" for each in definition.decorators)
    return definition, 0 if is_static else num_bound
