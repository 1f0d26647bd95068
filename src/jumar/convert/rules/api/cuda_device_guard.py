"""## What it does
Judges every test that asks for CUDA (`x.device.type == 'cuda'`, `'cuda' in device`,
`device.startswith('cuda')`, `x.is_cuda`, `torch.cuda.is_available()`) by the names around it:
- *an accelerator is there*: converted;
- *this picks a CUDA-only kernel* (custom kernels, extensions, fused optimizers, Triton, cuDNN, TF32 …):
  left, so that the program takes the path it already has for every other device.

- *CUDA's own side of code that has a side for the NPU, too* (`elif device.type == 'npu'`): left with all
  that only it leads to.

Each judgement is a finding, with the names it rests on.

## Why it matters
A guard renamed by mistake sends the NPU into code that only CUDA has, although the path beside it
would have worked; a guard left by mistake silently skips pinned memory, seeding or the accelerator.

## Example
```python
if x.device.type == 'cuda':
    torch.cuda.synchronize()
if impl == 'cuda' and x.device.type == 'cuda' and _init():
    return _bias_act_cuda(x)
```

## Use instead
```python
if x.device.type == 'npu':
    torch.npu.synchronize()
if impl == 'cuda' and x.device.type == 'cuda' and _init():
    return _bias_act_cuda(x)
```

## Fix safety
Safe where the compared value is a device; unsafe where only the word `'cuda'` speaks for it.

## References
- https://pytorch.org/docs/stable/tensor_attributes.html#torch.device
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.model.spans import Span
from jumar.convert.model.words import names_device, names_kernel
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.guards.judging import Verdict, judge
from jumar.convert.rules.subject.guards.sites import is_condition
from jumar.convert.rules.subject.word_keys import may_change
from jumar.convert.syntax.devices import holds_device, is_device_word
from jumar.convert.syntax.literals import Literal, literal
from jumar.convert.syntax.receivers import Receivers
from jumar.convert.syntax.scopes import last_name
from jumar.convert.syntax.source import Source

RULE = Rule(
    code="JM108",
    name="cuda-device-guard",
    summary="A test asks for CUDA: for an accelerator, or for a CUDA-only kernel.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="safe",
)

_DEVICE_ATTRIBUTES = frozenset({"type", "device", "device_type"})
_NEGATIVE = (cst.NotEqual, cst.NotIn, cst.IsNot)


@dataclass(frozen=True, slots=True)
class _Guard:
    """One test: the node that is true or false, what to edit, and whether it surely is about a device."""

    test: cst.BaseExpression
    spot: cst.CSTNode
    replacements: tuple[Replacement, ...] | None
    """None: the target has no way to write it."""
    negative: bool = False
    availability: bool = False
    certain: bool = True
    counts: bool = False
    """Whether it asks for the number of devices: a name that another rule converts."""
    choice: str = ""
    """The name of what is compared, where it chooses an implementation and no device."""


def find(context: Context) -> Iterator[Proposal]:
    """Propose the target's form of each guard that asks for an accelerator; report the others."""
    yield from _handled(context)
    for guard in _guards(context):
        if context.kept(context.source.span(guard.spot)):
            continue
        if guard.choice:
            yield _left(context, guard, Verdict("kernel", (guard.choice,)))
            continue
        verdict = judge(
            context.source,
            guard.test,
            negative=guard.negative,
            availability=guard.availability,
            is_edited=lambda node: context.edited(context.source.span(node)),
        )
        if isinstance(guard.spot, cst.BaseExpression) and may_change(context, guard.spot) is False:
            yield _kept(context, guard)
        elif verdict.kind == "handled":
            yield _beside(context.source.span(guard.spot), ", ".join(verdict.evidence))
        elif verdict.kind == "kernel":
            for node in verdict.guarded:
                context.close(context.source.span(node))
            yield _left(context, guard, verdict)
        else:
            if not guard.counts:
                yield _converted(context, guard)
            yield from _mixed(context, guard, verdict)


def _mixed(context: Context, guard: _Guard, verdict: Verdict) -> Iterator[Proposal]:
    """Report the uses of a converted test's value that lead to CUDA-only code."""
    for use, name in verdict.mixed:
        yield Proposal(
            rule=RULE,
            span=context.source.span(use),
            confidence="likely",
            message=f"This holds `{_short(context.source, guard.test)}`, which asks for any accelerator now, and leads"
            f" to CUDA-only code ({name}).",
            action=f"Ask for CUDA here, so that {context.dialect.where} takes the other path.",
        )


def _handled(context: Context) -> Iterator[Proposal]:
    """Report the CUDA side of code that has one for the NPU, once for a test."""
    for side in context.cuda_sides:
        start, end = side.test
        yield _beside((start, end), " ".join(context.source.text.text[start:end].split())[:60])


def _beside(span: Span, what: str) -> Proposal:
    return Proposal(
        rule=RULE,
        span=span,
        severity=Severity.INFO,
        confidence="likely",
        message=f"The program has code for the NPU beside its code for CUDA, so this stays: {what}.",
    )


def _kept(context: Context, guard: _Guard) -> Proposal:
    return Proposal(
        rule=RULE,
        span=context.source.span(guard.spot),
        message=f"`{_short(context.source, guard.test)}` reads an option that other files give as it is; it was left.",
        confidence="likely",
        action="Change it in every file at once.",
    )


def _unwritten(context: Context, guard: _Guard) -> Proposal:
    return Proposal(
        rule=RULE,
        span=context.source.span(guard.spot),
        message=f"`{_short(context.source, guard.test)}` asks for CUDA and has no form for {context.dialect.where}.",
        confidence="likely",
        action="Write it with the type of a device, so that it is false on a CPU and true elsewhere.",
    )


def _left(context: Context, guard: _Guard, verdict: Verdict) -> Proposal:
    return Proposal(
        rule=RULE,
        span=context.source.span(guard.spot),
        message=f"`{_short(context.source, guard.test)}` picks CUDA-only code, so it was left (false without CUDA).",
        evidence={"names": list(verdict.evidence)},
        confidence="likely",
        why=f"Judged by {', '.join(verdict.evidence)}.",
        action=f"If the guarded code runs on {context.dialect.where}, too, change the test.",
    )


def _converted(context: Context, guard: _Guard) -> Proposal:
    if guard.replacements is None:
        return _unwritten(context, guard)
    test = _short(context.source, guard.test)
    return Proposal(
        rule=RULE,
        span=context.source.span(guard.spot),
        message=f"`{test}` asks whether an accelerator is there."
        if guard.certain
        else f"`{test}` may ask for a device.",
        replacements=guard.replacements,
        safety="safe" if guard.certain else "unsafe",
        confidence="likely" if guard.certain else "possible",
        action="" if guard.certain else "If it is a device, convert with --unsafe or change it here.",
    )


def _short(source: Source, node: cst.CSTNode) -> str:
    text = " ".join(source.code(node).split())
    return text if len(text) <= 60 else text[:57] + "..."


def _guards(context: Context) -> Iterator[_Guard]:
    for node in context.source.nodes(cst.Comparison):
        yield from _comparison(context, node)
    yield from _prefix_tests(context)
    yield from _properties(context)
    yield from _availability(context)


def _comparison(context: Context, node: cst.Comparison) -> Iterator[_Guard]:
    if len(node.comparisons) != 1:
        return
    source, target = context.source, node.comparisons[0]
    left, right = node.left, target.comparator
    negative = isinstance(target.operator, _NEGATIVE)
    for side, other in ((left, right), (right, left)):
        for text in _literals_in(source, side):
            if text.is_bare or (text.is_indexed and not text.num_fields) or (text.is_indexed and side is right):
                yield _Guard(
                    node, text.node, context.dialect.comparison(node, text), negative,
                    certain=text.is_indexed or _is_device(context, other) or _beside_device(source, side),
                    choice=_kernel_name(other),
                )  # fmt: skip


def _kernel_name(node: cst.BaseExpression) -> str:
    """Return the name of a side that reads as the choice of an implementation (`args.backend`), else nothing."""
    name = last_name(node)
    return name if names_kernel(name) else ""


def _literals_in(source: Source, node: cst.BaseExpression) -> Iterator[Literal]:
    """Yield the literal that `node` is, those it holds as a tuple, or the one it makes a device of."""
    elements = node.elements if isinstance(node, (cst.Tuple, cst.List, cst.Set)) else ()
    made = node.args if isinstance(node, cst.Call) and source.qualified(node.func) == "torch.device" else ()
    inner = [made[0].value] if len(made) == 1 and not made[0].star else []
    for candidate in (node, *(element.value for element in elements), *inner):
        text = literal(source, candidate)
        if text is not None:
            yield text


def _beside_device(source: Source, node: cst.BaseExpression) -> bool:
    return any(is_device_word(source, text.node) for text in _literals_in(source, node))


def _is_device(context: Context, node: cst.BaseExpression) -> bool:
    """Tell whether the compared value is a device: by its attribute, its name, or what wraps it."""
    if isinstance(node, cst.Call):
        inner = [arg.value for arg in node.args if arg.keyword is None]
        if context.source.qualified(node.func) in ("builtins.str", "torch.device", "builtins.getattr") and inner:
            return context.source.qualified(node.func) == "torch.device" or _is_device(context, inner[0])
        return isinstance(node.func, cst.Attribute) and _is_device(context, node.func.value)
    if isinstance(node, cst.Subscript):
        return _is_device(context, node.value) or any(
            names_device(text.body)
            for element in node.slice
            if isinstance(element.slice, cst.Index) and (text := literal(context.source, element.slice.value))
        )
    name = last_name(node.target if isinstance(node, cst.NamedExpr) else node)
    if not name or names_kernel(name):
        return False
    if name == "type":
        return isinstance(node, cst.Attribute) and _is_device(context, node.value)
    is_named = names_device(name) or name in _DEVICE_ATTRIBUTES or name in context.device_names
    return is_named or holds_device(context.source, node)


def _prefix_tests(context: Context) -> Iterator[_Guard]:
    source = context.source
    for node in source.nodes(cst.Attribute):
        call = source.called(node)
        if node.attr.value != "startswith" or call is None or len(call.args) != 1:
            continue
        for text in _literals_in(source, call.args[0].value):
            if text.num_fields == 0 and (text.is_bare or text.is_indexed):
                edits = context.dialect.prefix_test(call, text)
                yield _Guard(call, text.node, edits, certain=_is_device(context, node.value))


def _properties(context: Context) -> Iterator[_Guard]:
    source, receivers = context.source, Receivers(context.source, "is_cuda")
    for node in source.nodes(cst.Attribute):
        if node.attr.value != "is_cuda" or node in source.tree.stored or source.called(node) is not None:
            continue
        if is_condition(source, node) and receivers.classify(node.value) != "own":
            yield _Guard(node, node.attr, context.dialect.is_cuda(node))


def _availability(context: Context) -> Iterator[_Guard]:
    source = context.source
    for reference in source.references:
        if not reference.certain or reference.call is None:
            continue
        if reference.name == "torch.cuda.is_available" and is_condition(source, reference.call):
            yield _Guard(reference.call, reference.node, context.dialect.reference(reference).edits, availability=True)
        elif reference.name == "torch.cuda.device_count":
            test, negative = _with_bound(source, reference.call)
            if is_condition(source, test):
                yield _Guard(test, reference.node, None, negative, availability=True, counts=True)


def _with_bound(source: Source, call: cst.Call) -> tuple[cst.BaseExpression, bool]:
    """Return the test that a number of devices stands in (`device_count() > 0`), and whether it is true for none."""
    target = source.parent(call)
    node = source.parent(target) if isinstance(target, cst.ComparisonTarget) else target
    if not isinstance(node, cst.Comparison) or len(node.comparisons) != 1:
        return call, False
    operator, other = node.comparisons[0].operator, node.comparisons[0].comparator
    if other is call:
        operator, other = _MIRRORED.get(type(operator), type(operator))(), node.left
    bound = int(other.value) if isinstance(other, cst.Integer) and other.value in ("0", "1") else None
    if bound is None:
        return call, False
    if isinstance(operator, _SOME[bound]):
        return node, False
    return (node, True) if isinstance(operator, _NONE[bound]) else (call, False)


_MIRRORED: dict[type[cst.BaseCompOp], type[cst.BaseCompOp]] = {
    cst.LessThan: cst.GreaterThan,
    cst.GreaterThan: cst.LessThan,
    cst.LessThanEqual: cst.GreaterThanEqual,
    cst.GreaterThanEqual: cst.LessThanEqual,
}
_SOME = ((cst.GreaterThan, cst.NotEqual), (cst.GreaterThanEqual,))
"""By the number that a count is compared with, 0 or 1: operators that are true where there is a device."""
_NONE = ((cst.Equal, cst.LessThanEqual), (cst.LessThan,))
"""Those that are true where there is none."""
