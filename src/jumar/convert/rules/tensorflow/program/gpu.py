"""Options of a GPU in a session's configuration: `gpu_arguments`, `gpu_settings`."""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.convert.syntax.source import Source

_OPTIONS = "gpu_options"


def gpu_arguments(call: cst.Call) -> list[cst.Arg]:
    """Return the arguments `gpu_options` of a ConfigProto."""
    return [arg for arg in call.args if arg.keyword is not None and arg.keyword.value == _OPTIONS]


def gpu_settings(source: Source) -> Iterator[cst.CSTNode]:
    """Yield every statement that sets an option of the GPU (`config.gpu_options.allow_growth = True`)."""
    for node in source.nodes(cst.Attribute):
        if node.attr.value != _OPTIONS:
            continue
        outer = _outermost(source, node)
        parent = source.parent(outer)
        if isinstance(parent, (cst.AssignTarget, cst.AugAssign)):
            statement = parent if isinstance(parent, cst.AugAssign) else source.parent(parent)
            if isinstance(statement, cst.AugAssign) or (
                isinstance(statement, cst.Assign) and len(statement.targets) == 1
            ):
                yield statement
        elif isinstance(parent, cst.Call) and parent.func is outer and isinstance(source.parent(parent), cst.Expr):
            yield parent


def gpu_reads(source: Source) -> Iterator[cst.Attribute]:
    """Yield uses of `gpu_options` that are no settings (`options = config.gpu_options`)."""
    for node in source.nodes(cst.Attribute):
        if node.attr.value == _OPTIONS:
            outer = _outermost(source, node)
            parent = source.parent(outer)
            is_call = isinstance(parent, cst.Call) and parent.func is outer
            is_setting = isinstance(parent, (cst.AssignTarget, cst.AugAssign))
            if not is_setting and not (is_call and parent and isinstance(source.parent(parent), cst.Expr)):
                yield node


def _outermost(source: Source, node: cst.Attribute) -> cst.BaseExpression:
    found: cst.BaseExpression = node
    parent = source.parent(node)
    while isinstance(parent, (cst.Attribute, cst.Subscript)) and parent.value is found:
        found, parent = parent, source.parent(parent)
    return found
