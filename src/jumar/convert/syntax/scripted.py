"""Tells which code TorchScript compiles: it knows PyTorch's own methods only, not `.npu()` and `.is_npu`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.convert.syntax.devices import values_of
from jumar.convert.syntax.source import Source

_DECORATORS = frozenset({"torch.jit.script", "torch.jit.script_method", "torch.jit.export", "torch.jit.interface"})
_COMPILERS = frozenset({"torch.jit.script", "torch.jit.script_if_tracing"})
_LEFT_OUT = frozenset({"torch.jit.ignore", "torch.jit.unused", "torch.jit.is_scripting"})


def is_scripted(source: Source, node: cst.CSTNode) -> bool:
    """Tell whether a node stands in a function or class that this file gives to torch.jit.script."""
    if not any(name.startswith("torch.jit") for name in source.derived(_jit_names)):
        return False
    compiled = source.derived(_compiled)
    for around in source.ancestors(node):
        if isinstance(around, (cst.FunctionDef, cst.ClassDef)):
            named = {source.qualified(_plain(decorator)) for decorator in around.decorators}
            if named & _LEFT_OUT:
                return False
            if around in compiled or named & _DECORATORS:
                return not (isinstance(around, cst.ClassDef) and _in_constructor(source, node))
    return False


def _plain(decorator: cst.Decorator) -> cst.BaseExpression:
    return decorator.decorator.func if isinstance(decorator.decorator, cst.Call) else decorator.decorator


def _in_constructor(source: Source, node: cst.CSTNode) -> bool:
    function = source.enclosing(node, cst.FunctionDef)
    return function is not None and function.name.value == "__init__"


def _jit_names(source: Source) -> frozenset[str]:
    return frozenset(reference.name for reference in source.references if reference.name.startswith("torch.jit"))


def _compiled(source: Source) -> frozenset[cst.CSTNode]:
    """Return the functions and classes whose name, or an object of which, is given to torch.jit.script."""
    found: set[cst.CSTNode] = set()
    for reference in source.references:
        if reference.name in _COMPILERS and reference.call is not None and reference.call.args:
            found.update(_definitions(source, reference.call.args[0].value, 0))
    return frozenset(found)


def _definitions(source: Source, node: cst.CSTNode, depth: int) -> Iterator[cst.CSTNode]:
    if depth > 5:
        return
    if isinstance(node, cst.Call):
        yield from _definitions(source, node.func, depth + 1)
    elif isinstance(node, cst.Attribute):  # of `Net().eval`
        yield from _definitions(source, node.value, depth + 1)
    elif isinstance(node, cst.Name):
        for binding in source.scope(node).bindings_of(node.value):
            if binding.kind == "definition":
                yield binding.node
        for value in values_of(source, node):
            yield from _definitions(source, value, depth + 1)
