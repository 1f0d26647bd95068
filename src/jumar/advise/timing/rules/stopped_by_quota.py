"""JM475 stopped-by-quota.

## What it does
Adds up for how long the container's quota of processor time stopped the threads of the run, in the judged steps.

## Why it matters
With a quota of 4 cores on a machine of 64, 64 threads use the quota of 100 ms within 6 ms. Then all of them stand still
for 94 ms. It looks like random stalls of the host.

## Example
```bash
docker run --cpus 4 image python train.py   # PyTorch starts a thread for each core that it sees
```

## Use instead
```bash
docker run --cpus 4 -e OMP_NUM_THREADS=4 image python train.py
```
Or give the container cores of its own (`--cpuset-cpus`) in the place of a quota.

## Fix safety
No edit is made.

## References
The kernel's documentation of CFS bandwidth control: `cpu.max`, `cpu.stat`.
"""

from __future__ import annotations

import numpy as np

from jumar.advise.bottlenecks.tally import percent_text
from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.profile import Profile
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM475",
    name="stopped-by-quota",
    summary="The container's quota stops the threads of the run.",
    severity=Severity.ADVICE,
    doc=__doc__,
)


def find(profile: Profile) -> Outcomes:
    """Yield one finding where the quota stopped threads for a share of the judged steps."""
    stopped = next((one for one in profile.timeline.counters if one.name == "stopped by the quota"), None)
    if stopped is None:
        yield not_checked(RULE, "no quota of a container is known; `jumar profile` notes it where there is one.")
        return
    inside = stopped.values[profile.time.hold(stopped.times_ns)]
    spent = float(np.ptp(inside)) if len(inside) else 0.0
    share = spent * 1e6 / profile.time.total_ns if profile.time.total_ns else 0.0
    if share < profile.thresholds.of("JM475", "share"):
        return
    each = spent / max(len(profile.judged), 1)
    yield RULE.finding(
        f"The quota of the container stopped threads for {each:,.1f} ms a step, {percent_text(share)} of it "
        "(summed over threads).",
        evidence={"stopped_ms_per_step": round(each, 3)},
        why="More threads run than the quota has cores: it is used up, and all of them stand still.",
        action="Set OMP_NUM_THREADS to the quota, use fewer loader workers, or give the container cores of its own.",
    )
