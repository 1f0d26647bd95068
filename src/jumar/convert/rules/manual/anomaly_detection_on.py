"""## What it does
Switches anomaly detection off: `torch.autograd.set_detect_anomaly(True)` becomes False, and
`with torch.autograd.detect_anomaly():` becomes `with torch.autograd.set_detect_anomaly(False):`. Calls of
`gradcheck` and `gradgradcheck` are reported.

## Why it matters
It records a traceback for each operator and looks through each gradient for NaN, with a copy to the host that
waits for the device. The vendor's advice list deletes it; use Jumar's overflow search where NaNs are hunted.

## Example
```python
torch.autograd.set_detect_anomaly(True)
```

## Use instead
```python
torch.autograd.set_detect_anomaly(False)
```

## Fix safety
Unsafe: a NaN in a backward pass no longer raises.

## References
- https://pytorch.org/docs/stable/autograd.html#anomaly-detection
- Advice lists of the vendor's script conversion tool (msfmktransplt): set_detect_anomaly, detect_anomaly, gradcheck
"""

from __future__ import annotations

from collections.abc import Iterator

import libcst as cst

from jumar.base.findings import Severity
from jumar.base.rules import Rule
from jumar.convert.model.edits import Proposal, Replacement
from jumar.convert.rules.subject.context import Context
from jumar.convert.rules.subject.names import argument
from jumar.convert.syntax.source import Reference, Source

RULE = Rule(
    code="JM164",
    name="anomaly-detection-on",
    summary="Every gradient is looked through for NaN.",
    severity=Severity.ADVICE,
    doc=__doc__,
    safety="unsafe",
    opt_in=True,
)


_MODULES = ("torch.autograd.", "torch.autograd.anomaly_mode.", "torch.autograd.gradcheck.")


def find(context: Context) -> Iterator[Proposal]:
    """Propose to switch anomaly detection off."""
    source = context.source
    for reference in source.references:
        name = reference.name.rpartition(".")[2]
        if reference.call is None or not reference.certain or not reference.name.startswith(_MODULES):
            continue
        if name in ("gradcheck", "gradgradcheck"):
            yield _report(context, reference)
        elif name in ("set_detect_anomaly", "detect_anomaly"):
            yield from _off(source, reference, name)


def _report(context: Context, reference: Reference) -> Proposal:
    return Proposal(
        rule=RULE,
        span=context.source.span(reference.node),
        message=f"`{reference.name}` compares gradients in float64, which NPUs hardly have.",
        action="Keep it to tests on the CPU.",
    )


def _off(source: Source, reference: Reference, name: str) -> Iterator[Proposal]:
    call = reference.call
    assert call is not None
    if name == "set_detect_anomaly":
        mode = argument(call, 0, "mode")
        if not isinstance(mode, cst.Name) or mode.value != "True":
            return
        edits: tuple[Replacement, ...] = (Replacement(*source.span(mode), "False"),)
    elif isinstance(reference.node, cst.Attribute):
        attr = reference.node.attr
        edits = (Replacement(source.span(attr)[0], source.span(call)[1], "set_detect_anomaly(False)"),)
    else:
        edits = ()
    yield Proposal(
        rule=RULE,
        span=source.span(reference.node),
        message="Anomaly detection is on: every gradient is copied to the host and looked through.",
        replacements=edits,
        safety="unsafe",
        action="" if edits else "Remove it once the error is found.",
    )
