"""JM409 unaligned-matmul.

## What it does
Adds up, over the matrix products and ungrouped convolutions that run in half precision, the work that
padding adds: the cube unit computes blocks of 16 × 16 × 16, so each of M, N and K (for a convolution the
input and output channels) counts up to the next multiple of 16. Reports when the padding is 5 % or more of
a step's products, with the worst shapes.

## Why it matters
Padded rows and columns are computed and thrown away: a classifier with 17 outputs works as hard as one
with 32.

## Example
```python
head = nn.Linear(512, 50257)      # padded to 50,272: 0.03 %, harmless
gate = nn.Linear(512, 3)          # padded to 16: five times the work
```

## Use instead
Channel counts, head sizes and vocabularies that are multiples of 16; join small projections into one.

## Fix safety
No edit is made: it changes the model.

## References
The vendor's guides ("keep every dimension a multiple of 16 on the AI Core"); the cube's block of the
Ascend 910 and 910B in float16 is 16 × 16 × 16. The first convolution of an image model has 3 channels by nature.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from jumar.advise.bottlenecks.run import Call, Run
from jumar.advise.bottlenecks.tally import Tally, per_step, percent_text, share
from jumar.advise.bottlenecks.tensors import arguments, is_half
from jumar.advise.checks import Outcomes, not_checked
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.base.text import listing
from jumar.operators import has
from jumar.operators.flops import product

RULE = Rule(
    code="JM409",
    name="unaligned-matmul",
    summary="Matrix products in half precision have dimensions that are no multiples of 16.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

BLOCK = 16
MIN_PADDED_SHARE = 0.05


def find(run: Run) -> Outcomes:
    """Yield one finding when padding is a noticeable part of the half-precision products."""
    tally = Tally()
    padding: dict[str, float] = defaultdict(float)
    useful = num_other = 0
    for step in run.steps:
        for call in step.calls:
            dims = _dimensions(call)
            if dims is None or not call.flops or not run.on_device(call):
                continue
            if not is_half(call.row.outputs[0].dtype):
                num_other += 1
                continue
            useful += call.flops
            padded = call.flops * (_padded(dims) - 1)
            if padded:
                padding[f"{call.row.module_path or call.row.name} {'×'.join(map(str, dims))}"] += padded
                tally.add(call, step.step)
    if not useful and num_other:
        reason = "no matrix product ran in half precision; record with autocast on to see its alignment."
        yield not_checked(RULE, reason)
        return
    wasted = sum(padding.values())
    part = share(wasted, useful + wasted)
    if part >= MIN_PADDED_SHARE:
        yield _finding(run, tally, padding, part)


def _finding(run: Run, tally: Tally, padding: Mapping[str, float], part: float) -> Finding:
    worst = sorted(padding.items(), key=lambda item: -item[1])
    finding = RULE.finding(
        f"Padding to multiples of {BLOCK} is {percent_text(part)} of the work of the half-precision matrix "
        f"products; most in {listing(f'`{label}`' for label, _ in worst)}.",
        where=tally.where(),
        evidence={
            **tally.evidence(run.totals),
            "padded_percent": round(100 * part, 2),
            "padded_flops_per_step": per_step(sum(padding.values()), run.totals),
            "worst": {label: per_step(value, run.totals) for label, value in worst[:8]},
        },
        why="The cube unit computes whole blocks of 16 × 16 × 16; padded rows and columns are thrown away.",
        action="Make these channel counts or sizes multiples of 16, or join small projections into one.",
        severity=Severity.ADVICE if part >= 2 * MIN_PADDED_SHARE else Severity.INFO,
    )
    return run.priced(finding)


def _dimensions(call: Call) -> tuple[int, ...] | None:
    """Return (M, K, N) of a product or (channels in, channels out) of an ungrouped convolution; None otherwise."""
    row = call.row
    if not row.outputs:
        return None
    found = product(row.name, [tensor.shape for tensor in row.inputs])
    if found is not None:
        return found.m, found.k, found.n
    weight = 2 if has(row.name, "backward") else 1
    if not has(row.name, "convolution") or len(row.inputs) <= weight or arguments(row).get("groups") not in {1, None}:
        return None
    shape = row.inputs[weight].shape
    return shape[1], shape[0]


def _padded(dims: tuple[int, ...]) -> float:
    """Return padded over useful work."""
    ratio = 1.0
    for size in dims:
        if size:
            ratio *= -(-size // BLOCK) * BLOCK / size
    return ratio
