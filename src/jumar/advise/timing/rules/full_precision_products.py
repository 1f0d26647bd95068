"""JM426 full-precision-products.

## What it does
Adds up the time of matrix products and convolutions whose inputs are all float32, where the profile holds none in half
precision, and reports when they fill a large share of the steps. Of a run on a processor it is information only.

## Why it matters
The matrix units of NPUs and GPUs multiply 16-bit numbers several times as fast as 32-bit ones, and half the bytes
move. On an Ascend 910 the unit takes float16 only; float32 products run on it in several passes or elsewhere.

## Example
```python
loss = model(images)
```

## Use instead
```python
with torch.autocast("npu", dtype=torch.bfloat16):
    loss = model(images)
```

## Fix safety
Training in half precision changes the numbers: compare the losses (`jumar compare`). float16 needs a loss scale.

## References
PyTorch's automatic mixed precision; the vendor's guides on mixed precision.
"""

from __future__ import annotations

from jumar.advise.bottlenecks.tally import percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.products import floats, products
from jumar.advise.timing.profile import Profile
from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule
from jumar.timeline.model.events import Kind

RULE = Rule(
    code="JM426",
    name="full-precision-products",
    summary="All matrix products are in float32.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(profile: Profile) -> Outcomes:
    """Yield one finding when every product with known dtypes is in float32 and they fill a share of the steps."""
    calls, kernels = (products(profile, kind).nonzero()[0] for kind in (Kind.OPERATOR, Kind.KERNEL))
    if not len(calls) and not len(kernels):
        yield not_checked(RULE, "no matrix product and no convolution is in the judged steps.")
        return
    # A GPU's kernels have no dtypes: those of the operators that start them say it.
    known = [kind for positions in (kernels, calls) for kind in floats(profile, positions) if kind]
    if not known:
        yield not_checked(RULE, "the timeline has no dtypes; profile with shapes (`record_shapes=True`).")
        return
    spans = profile.spans(kernels if len(kernels) else calls)
    if set(known) != {frozenset({"float32"})} or profile.share(spans) < profile.thresholds.of("JM426", "share"):
        return
    spent = profile.per_step_ms(spans.total_ns)
    finding = RULE.finding(
        f"All {len(known):,} products of the judged steps are in float32 and take {spent:,.1f} ms a step, "
        f"{percent_text(profile.share(spans))} of it.",
        where=Location(step=profile.judged[0].number),
        evidence={"products": len(known), "ms_per_step": round(spent, 3)},
        why="The matrix unit multiplies 16-bit numbers several times as fast.",
        action="Train under autocast (bfloat16, or float16 with a loss scale), and compare the losses.",
        severity=Severity.INFO if profile.timeline.device in ("", "cpu") else None,
        confidence="likely",
    )
    yield profile.priced(finding, spans)
