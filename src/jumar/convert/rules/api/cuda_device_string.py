"""## What it does
Renames the device in strings: `'cuda'`, `'cuda:0'`, `f'cuda:{rank}'`, `'cuda:' + str(rank)`,
`'cuda:%d' % rank`, `'cuda:{}'.format(rank)`, defaults and choices of options, and names of tensor types
(`'torch.cuda.FloatTensor'`). A bare `'cuda'` is only a word; it is renamed where its place makes it a
device: an argument of a torch function, a name such as `device` or `map_location`, a `'cpu'` beside it.
Where the place does not tell, the edit is unsafe. Keys of dictionaries, `impl='cuda'`, paths and
messages stay.

## Why it matters
A tensor sent to `'cuda'` on a machine without CUDA raises; a key or a path renamed by mistake
breaks something far away.

For `--target agnostic` the string becomes the variable DEVICE_TYPE, or an f-string with it.

## Example
```python
device = 'cuda' if use_gpu else 'cpu'
x = torch.zeros(8, device=f'cuda:{rank}')
```

## Use instead
```python
device = 'npu' if use_gpu else 'cpu'
x = torch.zeros(8, device=f'npu:{rank}')
```

## Fix safety
Safe where the place names a device; unsafe where only the word itself speaks for it.

## References
- https://pytorch.org/docs/stable/tensor_attributes.html#torch.device
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.guards.cuda_only import cuda_only_names, moves_data
from jumar.convert.rules.subject.word_keys import may_change
from jumar.convert.syntax.devices import OPTION_CALLS, OPTION_NAME, Place, callee_name, place_of
from jumar.convert.syntax.literals import Literal, literal, literals
from jumar.convert.syntax.source import Source
from jumar.convert.targets.expressions import filled_in

RULE = Rule(
    code="JM102",
    name="cuda-device-string",
    summary="A string names a CUDA device.",
    severity=Severity.WARNING,
    doc=__doc__,
    safety="safe",
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose the NPU's name in every string that names a CUDA device."""
    for text in literals(context.source):
        span = context.source.span(text.node)
        if context.covered(span):
            continue
        if text.is_tensor_type:
            yield _rename(context, text, "a tensor type", certain=True)
        elif text.is_indexed:
            yield from _indexed(context, text)
        elif text.is_bare:
            yield from _bare(context, text)


def _rename(context: Context, text: Literal, reason: str, *, certain: bool) -> Proposal:
    code = context.source.code(text.node)
    edits = context.dialect.device_literal(text)
    if edits is None:
        return Proposal(
            rule=RULE, span=context.source.span(text.node), severity=Severity.WARNING,
            confidence="certain" if certain else "possible",
            message=f"{code} names a CUDA device ({reason}) where no expression can stand, so it was left.",
            action="Write it for every device the program runs on.",
        )  # fmt: skip
    message = f"{code} names a CUDA device ({reason})." if certain else f"{code} may name a CUDA device ({reason})."
    return Proposal(
        rule=RULE,
        span=context.source.span(text.node),
        message=message,
        replacements=edits,
        safety="safe" if certain else "unsafe",
        confidence="certain" if certain else "possible",
        action="" if certain else "If it is a device, convert with --unsafe or change it here.",
        severity=_option_severity(context.source, text) if certain else None,
    )


def _option_severity(source: Source, text: Literal) -> Severity | None:
    """Return ADVICE for values of command-line options, whose callers have to change with them."""
    call = source.enclosing(text.node, cst.Call)
    return Severity.ADVICE if call is not None and callee_name(call) in OPTION_CALLS else None


def _indexed(context: Context, text: Literal) -> Iterator[Proposal]:
    place = place_of(context.source, filled_in(context.source, text.node))
    if place.certainty != "other":
        yield _rename(context, text, "with its index", certain=True)
        return
    yield _left(context, text, place)


def _bare(context: Context, text: Literal) -> Iterator[Proposal]:
    place = place_of(context.source, text.node)
    kernel = next(_kernels(context.source, text), "")
    if kernel:
        yield _chosen(context, text, kernel)
        return
    change = may_change(context, text.node)
    if change is False:
        yield _left(context, text, Place("other", "given to an option that other files read as it is"))
    elif change is True or _starts_device(context.source, text):
        yield _rename(context, text, "the first part of a device" if change is None else "an option", certain=True)
    elif place.certainty == "device":
        yield _rename(context, text, place.reason, certain=True)
    elif place.certainty == "unclear":
        known = any(name in place.reason.split() for name in context.device_names)
        yield _rename(context, text, place.reason, certain=known)
    elif place.reason != OPTION_NAME:
        yield _left(context, text, place)


def _kernels(source: Source, text: Literal) -> Iterator[str]:
    """Yield CUDA-only names that the word chooses: as a key of a table of functions, or as a `case`."""
    parent = source.parent(text.node)
    if isinstance(parent, cst.DictElement) and parent.key is text.node:
        yield from cuda_only_names(source, parent.value, lambda _node: False)
    case = source.parent(parent) if isinstance(parent, cst.MatchValue) else None
    if isinstance(case, cst.MatchCase) and not moves_data(source, case.body):
        yield from cuda_only_names(source, case.body, lambda _node: False)


def _chosen(context: Context, text: Literal, kernel: str) -> Proposal:
    return Proposal(
        rule=RULE,
        span=context.source.span(text.node),
        severity=Severity.ADVICE,
        confidence="likely",
        message=f"{context.source.code(text.node)} picks CUDA-only code ({kernel}), so it was left.",
        action=f"Add what {context.dialect.where} takes beside it, such as the choice for a CPU.",
    )


def _starts_device(source: Source, text: Literal) -> bool:
    """Tell whether an index is added to the word: `'cuda' + ':' + str(i)`."""
    parent = source.parent(text.node)
    if not isinstance(parent, cst.BinaryOperation) or not isinstance(parent.operator, cst.Add):
        return False
    rest = literal(source, parent.right) if parent.left is text.node else None
    return rest is not None and rest.body.startswith(":") and place_of(source, parent).certainty != "other"


def _left(context: Context, text: Literal, place: Place) -> Proposal:
    return Proposal(
        rule=RULE,
        span=context.source.span(text.node),
        severity=Severity.ADVICE,
        confidence="likely",
        message=f"{context.source.code(text.node)} is {place.reason}, not a device parameter, so it was left.",
        action="Check who reads it: it must not end up as a device.",
    )
