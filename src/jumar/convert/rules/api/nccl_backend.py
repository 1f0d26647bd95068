"""## What it does
Renames the collective backend `'nccl'` to `'hccl'`: in `init_process_group` and `new_group`, in
defaults and choices of options, in comparisons, and in compound forms (`'cpu:gloo,cuda:nccl'` becomes
`'cpu:gloo,npu:hccl'`, both halves or none). Asking for NCCL itself
(`Backend.NCCL`, `ProcessGroupNCCL`) is reported.

## Why it matters
NCCL is NVIDIA's library; on NPUs the collectives are HCCL's. A default renamed without the
comparison that reads it would choose the wrong branch silently.

`is_nccl_available()` becomes `is_backend_available('hccl')`.

## Example
```python
dist.init_process_group(backend='nccl')
```

## Use instead
```python
dist.init_process_group(backend='hccl')
```

## Fix safety
Safe. Scripts and configurations that pass `nccl` to a converted option must pass `hccl`.

## References
- torch_npu 2.13 (`torch_npu.distributed`: backend `hccl`)
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.subject.context import Context, first_argument, renamed
from jumar.convert.rules.subject.word_keys import may_change
from jumar.convert.syntax.devices import place_of
from jumar.convert.syntax.literals import Literal, literals
from jumar.convert.syntax.source import Reference, Source

RULE = Rule(
    code="JM105",
    name="nccl-backend",
    summary="The collective backend NCCL is named.",
    severity=Severity.ERROR,
    doc=__doc__,
    safety="safe",
)

_COMPOUND = re.compile(r"(\w+:\w+,)*cuda:nccl(,\w+:\w+)*")
_AVAILABLE = ("torch.distributed.is_nccl_available", "torch.distributed.distributed_c10d.is_nccl_available")
_API = {
    **dict.fromkeys(_AVAILABLE, "Call torch.distributed.is_backend_available with the back end's name."),
    "torch.distributed.Backend.NCCL": "Write 'hccl'.",
    "torch.distributed.ProcessGroupNCCL": "torch_npu registers its own process group under 'hccl'.",
    "torch.distributed.distributed_c10d.ProcessGroupNCCL": "torch_npu registers its own process group under 'hccl'.",
}


def find(context: Context) -> Iterator[Proposal]:
    """Propose HCCL at each place that chooses NCCL by name."""
    for text in literals(context.source):
        if text.num_fields == 0 and not context.covered(context.source.span(text.node)):
            yield from _string(context, text)
    for reference in context.source.references:
        hint = next((_API[name] for name in reference.names if name in _API), None)
        if reference.name == _AVAILABLE[0] and reference.call is not None and reference.certain:
            yield from _available(context, reference, reference.call)
        elif hint is not None:
            yield Proposal(
                rule=RULE, span=context.source.span(reference.node), severity=Severity.WARNING, action=hint,
                message=f"`{context.source.code(reference.node)}` asks for NCCL and was left.",
            )  # fmt: skip


def _available(context: Context, reference: Reference, call: cst.Call) -> Iterator[Proposal]:
    """Ask for the device's own back end by name; the question exists for every back end."""
    source, node = context.source, reference.node
    span = source.span(node)
    if context.covered(span):
        return
    edits: tuple[Replacement, ...] = ()
    if isinstance(node, cst.Attribute) and not call.args:
        word = context.dialect.backend_word(context.quote)
        edits = (renamed(source, node.attr, "is_backend_available"), first_argument(source, call, word))
    yield Proposal(
        rule=RULE, span=span, replacements=edits, severity=None if edits else Severity.WARNING,
        message=f"`{source.code(node)}` asks for NCCL.", action="" if edits else _API[reference.name],
    )  # fmt: skip


def _string(context: Context, text: Literal) -> Iterator[Proposal]:
    span = context.source.span(text.node)
    code = context.source.code(text.node)
    if text.body.lower() == "nccl":
        place = place_of(context.source, text.node)
        if place.reason in ("a dictionary key", "a key") or place.reason.startswith("argument of print"):
            yield Proposal(
                rule=RULE, span=span, severity=Severity.ADVICE, confidence="likely",
                message=f"{code} is {place.reason}, so it was left.",
                action="Rename it together with everything that looks it up.",
            )  # fmt: skip
            return
        if may_change(context, text.node) is False:
            yield Proposal(
                rule=RULE, span=span, confidence="likely",
                message=f"{code} is given to an option that other files read as it is, so it was left.",
                action="Change it in every file at once.",
            )  # fmt: skip
            return
        comparison = _comparison(context.source, text.node)
        edits = (
            context.dialect.backend_literal(text)
            if comparison is None
            else context.dialect.backend_comparison(comparison, text)
        )
        yield _rename(context, text, edits)
    elif _COMPOUND.fullmatch(text.body):
        yield _rename(context, text, context.dialect.backend_literal(text))


def _comparison(source: Source, node: cst.BaseExpression) -> cst.Comparison | None:
    """Return the comparison that a literal is one side of, or one of the choices of."""
    around = source.parent(node)
    while isinstance(around, (cst.Element, cst.Tuple, cst.List, cst.Set, cst.ComparisonTarget)):
        around = source.parent(around)
    return around if isinstance(around, cst.Comparison) and len(around.comparisons) == 1 else None


def _rename(context: Context, text: Literal, replacements: tuple[Replacement, ...] | None) -> Proposal:
    if replacements is None:
        return Proposal(
            rule=RULE, span=context.source.span(text.node), severity=Severity.WARNING,
            message=f"{context.source.code(text.node)} names NCCL where no expression can stand, so it was left.",
            action="Write it for every back end the program runs on.",
        )  # fmt: skip
    option = context.source.enclosing(text.node, cst.Call)
    is_option = option is not None and getattr(getattr(option.func, "attr", None), "value", "") == "add_argument"
    return Proposal(
        rule=RULE,
        span=context.source.span(text.node),
        message=f"{context.source.code(text.node)} names NCCL; the NPU's collectives are HCCL.",
        replacements=replacements,
        severity=Severity.ADVICE if is_option else None,
        action="Commands and configurations that pass nccl to this option must pass hccl." if is_option else "",
    )
