"""## What it does
Adds `combine_grad=True` to `amp.initialize` of a script that keeps apex. That is an option of Ascend's apex
only; where `apex-amp` is enabled too, which leaves apex behind, it does nothing.

## Why it matters
Ascend's apex then works on all gradients as one tensor when it scales and checks them, instead of one by one.

## Example
```python
from apex import amp
model, optimizer = amp.initialize(model, optimizer, opt_level='O2')
```

## Use instead
```python
from apex import amp
model, optimizer = amp.initialize(model, optimizer, opt_level='O2', combine_grad=True)
```

## Fix safety
Unsafe: NVIDIA's apex refuses the option, and combined gradients must not be replaced by others.

## References
- PyTorch network model porting and training guide: mixed precision, combine_grad
"""

from __future__ import annotations

from collections.abc import Iterator

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal
from jumar.convert.rules.manual import apex_amp
from jumar.convert.rules.subject.context import Context, has_star, keyword, last_argument, uses_of

RULE = Rule(
    code="JM163",
    name="apex-gradients-apart",
    summary="apex works on gradients one by one.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


def find(context: Context) -> Iterator[Proposal]:
    """Propose combined gradients where apex is kept."""
    if context.options.checks(apex_amp.RULE):
        return
    source = context.source
    for reference in uses_of(source, "apex.amp.initialize"):
        call = reference.call
        if call is None or keyword(call, "combine_grad") is not None or has_star(call, "**"):
            continue
        agnostic = context.options.target == "agnostic"
        yield Proposal(
            rule=RULE,
            span=source.span(reference.node),
            message="apex scales and checks gradients one by one; Ascend's can do it for all at once.",
            replacements=() if agnostic else (last_argument(source, call, "combine_grad=True"),),
            safety="unsafe",
            action="Give amp.initialize combine_grad=True where Ascend's apex is used." if agnostic else "",
        )
