"""JM432 unfused-attention.

## What it does
Finds attention that is calculated in parts (a batched product, a softmax, a batched product, in the forward pass) and
adds up their time.

## Why it matters
In parts, the matrix of scores is written to memory and read again several times. One fused operator keeps it on the
chip: it is faster, and needs memory for the sequence and not for its square.

## Example
```python
scores = torch.softmax(q @ k.transpose(-2, -1) / math.sqrt(d), dim=-1)
out = scores @ v
```

## Use instead
```python
out = torch.nn.functional.scaled_dot_product_attention(q, k, v)
```

## Fix safety
The same calculation in another order: results differ in the last digits. Dropout draws other numbers.

## References
PyTorch's documentation of scaled_dot_product_attention; `npu_fusion_attention` of the vendor.
"""

from __future__ import annotations

import numpy as np

from jumar.advise.bottlenecks.tally import at_text, percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.products import base
from jumar.advise.timing.profile import Profile
from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule
from jumar.recording.schema import split_source
from jumar.timeline.model.events import Kind

RULE = Rule(
    code="JM432",
    name="unfused-attention",
    summary="Attention is calculated in parts.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
_PRODUCTS, _SOFTMAX = frozenset({"bmm", "baddbmm"}), frozenset({"_softmax"})
_NEAR = 30
"""So many events may lie between the parts: scaling, masking, dropout, views, and what they call."""


def find(profile: Profile) -> Outcomes:
    """Yield one finding when attention in parts fills a share of the steps."""
    timeline = profile.timeline
    leaves = profile.inside(timeline.of(Kind.OPERATOR))
    names = [base(timeline.name_of(int(i))) if "::" in timeline.name_of(int(i)) else "" for i in leaves]
    if not any(names):
        yield not_checked(RULE, "the timeline has no operators of PyTorch.")
        return
    chains = _chains(names)
    parts = leaves[np.array(sorted({i for first, last in chains for i in range(first, last + 1)}), np.int64)]
    spans = profile.spans(parts)
    if not chains or profile.share(spans) < profile.thresholds.of("JM432", "share"):
        return
    source = profile.line_of(leaves[np.array([first for first, _ in chains], np.int64)])
    path, line = split_source(source)
    spent = profile.per_step_ms(spans.total_ns)
    finding = RULE.finding(
        f"Attention is calculated in parts {profile.rate(len(chains)):,.0f} times a step{at_text(source)}: "
        f"{spent:,.1f} ms a step in the forward pass, {percent_text(profile.share(spans))} of it.",
        where=Location(path=path, line=line, operator="aten::_softmax"),
        evidence={"times_per_step": round(profile.rate(len(chains)), 2), "ms_per_step": round(spent, 3)},
        why="The matrix of scores is written to memory and read again between the parts.",
        action="Use `torch.nn.functional.scaled_dot_product_attention`, or the NPU's fused attention.",
        confidence="likely",
    )
    yield profile.priced(finding, spans)


def _chains(names: list[str]) -> list[tuple[int, int]]:
    """Return first and last position of each product, softmax, product that stand near each other."""
    found: list[tuple[int, int]] = []
    for place in (i for i, name in enumerate(names) if name in _SOFTMAX):
        before = next((i for i in range(place - 1, max(place - _NEAR, -1), -1) if names[i] in _PRODUCTS), None)
        after = next((i for i in range(place + 1, min(place + _NEAR, len(names))) if names[i] in _PRODUCTS), None)
        if before is not None and after is not None:
            found.append((before, after))
    return found
