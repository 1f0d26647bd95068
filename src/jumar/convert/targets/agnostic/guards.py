"""Writes tests for CUDA as tests that are false on a CPU and true on any accelerator."""

from __future__ import annotations

import libcst as cst

from jumar.convert.model.edits import Replacement
from jumar.convert.syntax.literals import Literal, literal
from jumar.convert.syntax.source import Source
from jumar.convert.syntax.tree import descendants
from jumar.convert.targets.agnostic import strings as agnostic_strings
from jumar.convert.targets.base import Edits
from jumar.convert.targets.module_names import ModuleNames
from jumar.convert.targets.spelling import around, operator_span, quote_at, spaced

_OTHERS = frozenset({"mps", "xpu", "hpu", "mlu", "musa", "xla", "meta"})
_NEGATIVE = (cst.NotEqual, cst.NotIn, cst.IsNot)


def comparison(source: Source, names: ModuleNames, node: cst.Comparison, text: Literal) -> Edits | None:
    """Chain a device's test with one that is false on a CPU: `x == DEVICE_TYPE != 'cpu'`."""
    if text.is_tensor_type or not agnostic_strings.takes_expression(source, node):
        return None
    if text.is_indexed:
        return agnostic_strings.device(source, names, text)
    cpu = f"{text.quote}cpu{text.quote}"
    made = _device_made_of(source, text.node)
    if made is not None:
        if node.left is made and _may_act(node.comparisons[0].comparator):
            return None
        cpu = f"{source.code(made.func)}({cpu})"
    elif _is_type_of_device(node, text):
        negative = isinstance(node.comparisons[0].operator, cst.NotEqual)
        others = _handled_elsewhere(source, node)
        if others:
            start, end = operator_span(source, node)
            whole = source.text.text
            before, after = ("" if whole[at].isspace() else " " for at in (start - 1, end))
            flipped = f"{before}{'in' if negative else 'not in'}{after}"
            cpu = f"({', '.join([cpu, *(f'{text.quote}{word}{text.quote}' for word in others)])})"
        else:
            flipped = "==" if negative else "!="
        return (
            spaced(source, operator_span(source, node), flipped),
            spaced(source, source.span(text.node), cpu),
        )
    return chained(source, node, text, names.device_type, cpu)


def chained(source: Source, node: cst.Comparison, text: Literal, word: str, cpu: str) -> Edits | None:
    """Put `word` in place of `text` and chain the comparison with one against `cpu`; operands are evaluated once."""
    if not agnostic_strings.takes_expression(source, node):
        return None
    target = node.comparisons[0]
    is_left = _holds(source, node.left, text.node)
    contains = isinstance(target.operator, (cst.In, cst.NotIn))
    edits = [spaced(source, source.span(text.node), word)]
    prefix, suffix = f"{cpu} != ", ""
    negative = isinstance(target.operator, _NEGATIVE)
    if is_left and _may_act(target.comparator):
        return _joined(source, node, edits, f" or {word} == {cpu}" if negative else f" and {word} != {cpu}")
    if contains and not is_left:
        if not isinstance(target.comparator, (cst.Tuple, cst.List, cst.Set)):
            return None
        if any(_is_word(source, element.value, cpu) for element in target.comparator.elements):
            return tuple(edits)
    elif not is_left:
        prefix, suffix = "", f" != {cpu}"
    if negative:
        prefix = f"not {prefix}"
        positive = "in" if contains else "is" if isinstance(target.operator, cst.IsNot) else "=="
        edits.append(Replacement(*operator_span(source, node), positive))
    return _with_ends(source, node, edits, prefix, suffix)


def _may_act(node: cst.CSTNode) -> bool:
    """Tell whether evaluating an expression calls something, so that it must not be skipped."""
    return any(isinstance(found, (cst.Call, cst.Await, cst.NamedExpr)) for found in descendants(node))


def _joined(source: Source, node: cst.Comparison, edits: list[Replacement], tail: str) -> Edits:
    """Put a second test after the comparison, which is evaluated as before."""
    opening, closing = around(source, node, "conditional")  # an `or` beside an `and` needs them, too
    end = source.span(node)[1]
    if opening:
        edits = list(_with_ends(source, node, edits, opening, ""))
    return (*edits, Replacement(end, end, tail + closing))


def _device_made_of(source: Source, node: cst.BaseExpression) -> cst.Call | None:
    """Return the `torch.device(...)` around a literal that is one side of a comparison."""
    argument = source.parent(node)
    call = source.parent(argument) if isinstance(argument, cst.Arg) else None
    return call if isinstance(call, cst.Call) and source.qualified(call.func) == "torch.device" else None


def _is_type_of_device(node: cst.Comparison, text: Literal) -> bool:
    """Tell whether the test is `x.type == 'cuda'`: the type of a device is a CPU's or an accelerator's."""
    target = node.comparisons[0]
    return (
        isinstance(target.operator, (cst.Equal, cst.NotEqual))
        and target.comparator is text.node
        and isinstance(node.left, cst.Attribute)
        and node.left.attr.value == "type"
    )


def _handled_elsewhere(source: Source, node: cst.Comparison) -> list[str]:
    """Return the other accelerators that the same chain of `if` and `elif` tests for on its own."""
    branch: cst.CSTNode | None = source.enclosing(node, cst.If)
    while isinstance(branch, cst.If) and isinstance(source.parent(branch), cst.If):
        branch = source.parent(branch)
    found: set[str] = set()
    while isinstance(branch, cst.If):
        texts = (node.raw_value for node in descendants(branch.test) if isinstance(node, cst.SimpleString))
        found |= _OTHERS.intersection(texts)
        branch = branch.orelse
    return sorted(found)


def _with_ends(source: Source, node: cst.Comparison, edits: list[Replacement], prefix: str, suffix: str) -> Edits:
    """Add text before and after a comparison, as part of an edit that starts or ends at the same place."""
    start = source.outer_span(node.left)[0]
    end = source.outer_span(node.comparisons[0].comparator)[1]
    if prefix:
        prefix = spaced(source, (start, start), prefix).text.rstrip() + ("" if prefix == "(" else " ")
    joined: list[Replacement] = []
    for edit in edits:
        first, text = edit.start, edit.text
        if first == start and prefix:
            text, prefix = prefix + text.lstrip(), ""
        if edit.end == end and suffix:
            text, suffix = text.rstrip() + suffix, ""
        joined.append(Replacement(first, edit.end, text))
    before = [Replacement(start, start, prefix)] if prefix else []
    after = [Replacement(end, end, suffix)] if suffix else []
    return (*before, *joined, *after)


def _holds(source: Source, node: cst.CSTNode, inner: cst.CSTNode) -> bool:
    return node is inner or any(found is node for found in source.ancestors(inner))


def _is_word(source: Source, node: cst.BaseExpression, quoted: str) -> bool:
    text = literal(source, node)
    return text is not None and text.body == quoted[1:-1]


def prefix_test(source: Source, names: ModuleNames, call: cst.Call, text: Literal) -> Edits | None:
    """Ask for the device's own prefix, and that it is no CPU."""
    edits = agnostic_strings.device(source, names, text)
    if edits is None or text.is_indexed:
        return edits
    opening, closing = around(source, call, "and")
    start, end = source.span(call)
    before = (Replacement(start, start, opening),) if opening else ()
    tail = f" and {names.device_type} != {text.quote}cpu{text.quote}{closing}"
    return (*before, *edits, Replacement(end, end, tail))


def is_cuda(source: Source, node: cst.Attribute, quote: str) -> Edits:
    """Ask the tensor's device for its type; the tensor is evaluated once."""
    opening, closing = around(source, node, "comparison")
    quote = quote_at(source, node, quote)
    start = source.span(node)[0]
    before = (Replacement(start, start, opening),) if opening else ()
    token = spaced(source, source.span(node.attr), f"device.type != {quote}cpu{quote}{closing}")
    return (*before, token)
