"""Finds the option or configuration key of a device word, and asks whether other files let the word change.

Not a rule of its own; the rules on device and back-end words ask it.
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.devices import OPTION_CALLS, callee_name, option_names
from jumar.convert.syntax.literals import literal
from jumar.convert.syntax.source import Source

_LAYERS = (cst.List, cst.Tuple, cst.Set, cst.Element, cst.IfExp, cst.BooleanOperation, cst.ComparisonTarget)
_READS = ("get", "pop", "setdefault")


def may_change(context: Context, node: cst.BaseExpression) -> bool | None:
    """Ask the project about the key that a word belongs to.

    False: other files read the word and cannot change with it; True: they change, too; None: no other file has it.
    """
    for key in dict.fromkeys(_keys(context.source, node)):
        for name in (key, key.replace("_", "-")):
            found = context.project.changes(name)
            if found is not None:
                return found
    return None


def _keys(source: Source, node: cst.BaseExpression) -> Iterator[str]:
    child: cst.CSTNode = node
    parent = source.parent(node)
    while isinstance(parent, _LAYERS):
        child, parent = parent, source.parent(parent)
    if isinstance(parent, cst.Arg):
        call = source.parent(parent)
        if isinstance(call, cst.Call) and callee_name(call) in OPTION_CALLS:
            yield from option_names(source, call)
    elif isinstance(parent, cst.DictElement) and parent.value is child:
        yield from _text(source, parent.key)
    elif isinstance(parent, cst.Comparison):
        for side in (parent.left, *(target.comparator for target in parent.comparisons)):
            yield from _read(source, side)
    elif isinstance(parent, cst.Assign):
        for target in parent.targets:
            yield from _read(source, target.target)


def _read(source: Source, node: cst.BaseExpression) -> Iterator[str]:
    """Yield the key of `args.key`, `cfg['key']` and `cfg.get('key')`."""
    if isinstance(node, cst.Attribute):
        yield node.attr.value
    elif isinstance(node, cst.Subscript):
        for element in node.slice:
            if isinstance(element.slice, cst.Index):
                yield from _text(source, element.slice.value)
    elif isinstance(node, cst.Call) and callee_name(node) in _READS and node.args:
        yield from _text(source, node.args[0].value)


def _text(source: Source, node: cst.BaseExpression) -> Iterator[str]:
    text = literal(source, node)
    if text is not None and not text.num_fields:
        yield text.body
