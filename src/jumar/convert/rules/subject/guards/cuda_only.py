"""`cuda_only_names`: what guarded code calls, selects, stores, imports or switches on that exists for CUDA only."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

import libcst as cst

from jumar.convert.model.words import calls_cuda_only, is_cuda_only, names_cuda_function
from jumar.convert.syntax.devices import callee_name, values_of
from jumar.convert.syntax.literals import literal
from jumar.convert.syntax.scopes import dotted_name, last_name
from jumar.convert.syntax.source import Source
from jumar.convert.syntax.tree import descendants

_PRIVATE = re.compile(r"(?:.*\.)?(?:_[A-Za-z]\w*|\w+_(?:ext|C|cpp))")
"""How modules that are compiled are called, by convention."""
_FUNCTIONS = frozenset({"torch.autograd.Function", "torch.autograd.function.Function"})
_COMMON_OPERATORS = frozenset(
    {"aten", "prims", "npu", "quantized", "c10d", "c10d_functional", "_c10d_functional", "higher_order", "profiler"}
    | {"rngprims", "inductor", "torchvision", "torchaudio", "image", "fsdp", "dtensor"}
)
"""Namespaces of operators that PyTorch and its libraries register for any device."""
_MAX_DEPTH = 4


def identifiers(node: cst.CSTNode) -> Iterator[str]:
    """Yield the names in an expression, those of keywords included."""
    for found in descendants(node):
        if isinstance(found, cst.Name):
            yield found.value
        elif isinstance(found, cst.Arg) and found.keyword is not None:
            yield found.keyword.value


def cuda_only_names(
    source: Source, node: cst.CSTNode, is_edited: Callable[[cst.CSTNode], bool], *, helpers: bool = True
) -> Iterator[str]:
    """Yield names of CUDA-only things that guarded code calls, selects, stores, imports or switches on.

    `helpers`: functions of this file that the code calls or selects are looked into.
    """
    yield from _selected(source, node, is_edited, helpers)
    for found in descendants(node):
        if isinstance(found, cst.Call) and not is_edited(found.func):
            yield from _called(source, found, is_edited, helpers)
        elif isinstance(found, cst.Decorator):
            yield from (name for name in identifiers(found.decorator) if calls_cuda_only(name))
        elif isinstance(found, (cst.Assign, cst.AnnAssign, cst.Return)) and found.value is not None:
            yield from _selected(source, found.value, is_edited, helpers)
        elif isinstance(found, (cst.Import, cst.ImportFrom)) and not is_edited(found):
            yield from _imported(source, found)
        elif isinstance(found, cst.SimpleString) and not is_edited(found):
            text = found.raw_value
            if text.isidentifier() and is_cuda_only(text):
                yield text


def _called(source: Source, call: cst.Call, is_edited: Callable[[cst.CSTNode], bool], helpers: bool) -> Iterator[str]:
    yield from (name for name in identifiers(call.func) if calls_cuda_only(name))
    yield from _by_origin(source, call)
    yield from _applied(source, call)
    if helpers:
        yield from _in_helper(source, call.func, 0)
    for argument in call.args:
        if argument.keyword is not None and is_cuda_only(argument.keyword.value):
            yield argument.keyword.value
        yield from _selected(source, argument.value, is_edited, helpers)


def _by_origin(source: Source, call: cst.Call) -> Iterator[str]:
    """Yield the CUDA-only name of a call that is told by where the callee comes from, not by what it is called."""
    qualified = source.qualified(call.func) or ""
    parts = qualified.split(".")
    first = literal(source, call.args[0].value) if call.args else None
    if qualified.startswith("torch.utils.cpp_extension."):
        yield "cpp_extension"
    elif parts[:2] == ["torch", "ops"]:
        yield from [".".join(parts[:3])] if parts[2:] and parts[2] not in _COMMON_OPERATORS else []
    elif isinstance(call.func, cst.Subscript):
        yield from _launched(source, call.func.value)
    elif callee_name(call) in ("import_module", "__import__") and first is not None:
        yield from (name for name in _module_names(first.body) if name)
    elif callee_name(call) == "getattr" and call.args:
        name = last_name(call.args[0].value)
        yield from [name] if calls_cuda_only(name) else []
    elif parts[0] not in ("torch", "builtins"):
        yield from _loaded(source, call.func)
        yield from (part for part in _imported_as(source, call.func) if calls_cuda_only(part))


def _launched(source: Source, kernel: cst.CSTNode) -> Iterator[str]:
    """Yield the name of a kernel that is launched over a grid: `kernel[(1,)](x)`."""
    if last_name(kernel).endswith("kernel"):
        yield last_name(kernel)
    for function in _functions(source, kernel):
        if any(calls_cuda_only(name) for each in function.decorators for name in identifiers(each.decorator)):
            yield function.name.value


def _loaded(source: Source, node: cst.CSTNode) -> Iterator[str]:
    """Yield the name of a variable that holds a module which `torch.utils.cpp_extension` or a helper builds."""
    while isinstance(node, cst.Attribute):
        node = node.value
    for value in values_of(source, node):
        if not isinstance(value, cst.Call):
            continue
        texts = (literal(source, found) for found in descendants(value))
        has_source = any(text is not None and text.body.endswith((".cu", ".cuh")) for text in texts)
        if has_source or (source.qualified(value.func) or "").startswith("torch.utils.cpp_extension."):
            yield last_name(node)


def _imported_as(source: Source, node: cst.CSTNode) -> list[str]:
    """Return the imported name, without its packages, of what stands under another name here.

    A plain name that another one was assigned to (`backend = upfirdn2d_cuda`) stands for it.
    """
    while isinstance(node, cst.Attribute):
        node = node.value
    for value in values_of(source, node):
        if isinstance(value, (cst.Name, cst.Attribute)) and value is not node:
            return [*identifiers(value), *(_imported_as(source, value) if last_name(value) != last_name(node) else [])]
    if not isinstance(node, cst.Name) or not any(each.qualified for each in source.scope(node).bindings_of(node.value)):
        return []
    return [(source.qualified(node) or "").rpartition(".")[2]]


def _functions(source: Source, node: cst.CSTNode) -> Iterator[cst.FunctionDef]:
    """Yield the functions of this file that a name, or a method of `self`, stands for."""
    if isinstance(node, cst.Name):
        bindings = source.scope(node).bindings_of(node.value)
    elif isinstance(node, cst.Attribute) and isinstance(node.value, cst.Name) and node.value.value in ("self", "cls"):
        owner = source.enclosing(node, cst.ClassDef)
        bindings = source.tree.own_scopes[owner].bindings.get(node.attr.value, []) if owner is not None else []
    else:
        bindings = []
    yield from (each.node for each in bindings if isinstance(each.node, cst.FunctionDef))


def _in_helper(source: Source, node: cst.CSTNode, depth: int) -> Iterator[str]:
    """Yield the CUDA-only names that a function of this file calls, where it neither asks for a device nor moves."""
    for function in _functions(source, node) if depth <= _MAX_DEPTH else ():
        if moves_data(source, function.body) or _asks(function.body):
            continue
        for found in descendants(function.body):
            if isinstance(found, cst.Call):
                yield from (name for name in identifiers(found.func) if calls_cuda_only(name))
                yield from _by_origin(source, found)
                yield from _in_helper(source, found.func, depth + 1)


def _asks(body: cst.CSTNode) -> bool:
    return any(
        isinstance(node, cst.Attribute) and node.attr.value in ("is_cuda", "is_available") for node in descendants(body)
    )


def _applied(source: Source, call: cst.Call) -> Iterator[str]:
    """Yield the name of an `autograd.Function` of this file that is applied and whose methods call kernels of CUDA."""
    if not isinstance(call.func, cst.Attribute) or call.func.attr.value != "apply":
        return
    for definition in _classes(source, call.func.value, 0):
        called = (
            name
            for node in descendants(definition)
            if isinstance(node, cst.Call)
            for name in identifiers(node.func)
            if calls_cuda_only(name)
        )
        if is_autograd_function(source, definition) and next(called, None) is not None:
            yield definition.name.value


def _classes(source: Source, node: cst.CSTNode, depth: int) -> Iterator[cst.ClassDef]:
    if isinstance(node, cst.Name) and depth <= _MAX_DEPTH:
        for binding in source.scope(node).bindings_of(node.value):
            if isinstance(binding.node, cst.ClassDef):
                yield binding.node
            elif binding.value is not None:
                yield from _classes(source, binding.value, depth + 1)


def is_autograd_function(source: Source, node: cst.ClassDef) -> bool:
    """Tell whether a class derives from `torch.autograd.Function`."""
    return any((source.qualified(base.value) or "") in _FUNCTIONS for base in node.bases)


def _selected(
    source: Source, node: cst.CSTNode, is_edited: Callable[[cst.CSTNode], bool], helpers: bool
) -> Iterator[str]:
    """Yield the functions for CUDA that an expression is or chooses among, called later or elsewhere."""
    if isinstance(node, cst.IfExp):
        yield from _selected(source, node.body, is_edited, helpers)
        yield from _selected(source, node.orelse, is_edited, helpers)
    elif isinstance(node, (cst.Tuple, cst.List)):
        for element in node.elements:
            yield from _selected(source, element.value, is_edited, helpers)
    elif isinstance(node, (cst.Name, cst.Attribute)) and not is_edited(node):
        root = (dotted_name(node) or "").partition(".")[0]
        is_extension = isinstance(node, cst.Attribute) and (is_cuda_only(root) or names_cuda_function(root))
        if (names_cuda_function(last_name(node)) or is_extension) and not _is_data(source, node):
            yield last_name(node)
        elif helpers:
            yield from _in_helper(source, node, 0)


def _is_data(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether a variable holds something that was moved to CUDA (`x_cuda = x.cuda()`), and no function."""
    return any(moves_data(source, value) for value in values_of(source, node))


def _imported(source: Source, statement: cst.Import | cst.ImportFrom) -> Iterator[str]:
    module = dotted_name(statement.module) or "" if isinstance(statement, cst.ImportFrom) and statement.module else ""
    if module.partition(".")[0] in ("torch", "torch_npu"):
        return
    aliases = () if isinstance(statement.names, cst.ImportStar) else statement.names
    for name in (module, *(dotted_name(alias.name) or "" for alias in aliases)):
        yield from _module_names(name)
        if name in source.facts.extensions:
            yield name.rpartition(".")[2]


def _module_names(name: str) -> Iterator[str]:
    """Yield the last name of a module that reads as CUDA's or as a compiled one (`nms_cuda`, `pkg._C`)."""
    if any(calls_cuda_only(part) for part in name.split(".")) or _PRIVATE.fullmatch(name):
        yield name.rpartition(".")[2]


def moves_data(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether code names the accelerator itself: a device string, `.cuda()`, or torch.cuda."""
    for found in descendants(node):
        if isinstance(found, cst.Attribute) and found.attr.value == "cuda":
            return True
        text = literal(source, found)
        if text is not None and (text.is_bare or text.is_indexed):
            return True
    return False
