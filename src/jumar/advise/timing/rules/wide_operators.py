"""JM427 wide-operators.

## What it does
Adds up the time of operators and kernels that work on float64.

## Why it matters
NPUs have no unit for float64: such operators run on the chip's small general processors or on the host. GPUs for
training run them at a small fraction of float32's speed. Mostly one constant or one NumPy array brings float64 in.

## Example
```python
weights = torch.from_numpy(np.linspace(0, 1, 64))
```

## Use instead
```python
weights = torch.from_numpy(np.linspace(0, 1, 64)).float()
```

## Fix safety
float32 has 7 digits where float64 has 16. Compare the results.

## References
The vendor's lists of operators and dtypes; NumPy's default dtype is float64.
"""

from __future__ import annotations

import numpy as np

from jumar.advise.bottlenecks.tally import at_text, percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.products import floats
from jumar.advise.timing.profile import Profile
from jumar.base.findings import Location, Severity
from jumar.base.rules import Rule
from jumar.recording.schema import split_source
from jumar.timeline.model.events import Kind

RULE = Rule(
    code="JM427",
    name="wide-operators",
    summary="Operators work on float64.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(profile: Profile) -> Outcomes:
    """Yield one finding when operators on float64 fill a share of the steps."""
    positions = profile.inside(profile.timeline.of(Kind.OPERATOR, Kind.KERNEL))
    kinds = floats(profile, positions)
    if not any(kinds):
        yield not_checked(RULE, "the timeline has no dtypes; profile with shapes (`record_shapes=True`).")
        return
    wide = positions[np.fromiter(("float64" in kind for kind in kinds), bool, len(kinds))]
    spans = profile.spans(wide)
    if profile.share(spans) < profile.thresholds.of("JM427", "share"):
        return
    (name, _, _), *_ = profile.by_name(wide)
    source = profile.line_of(wide)
    path, line = split_source(source)
    spent = profile.per_step_ms(spans.total_ns)
    finding = RULE.finding(
        f"{len(wide):,} operators on float64, most time in {name}{at_text(source)}, take {spent:,.2f} ms a step, "
        f"{percent_text(profile.share(spans))} of it.",
        where=Location(path=path, line=line, operator=name),
        evidence={"operators": len(wide), "ms_per_step": round(spent, 3)},
        why="No matrix or vector unit of an NPU works on float64, and a GPU's does so slowly.",
        action="Find where float64 enters (a NumPy array, a Python constant in a tensor) and make it float32.",
    )
    yield profile.priced(finding, spans)
