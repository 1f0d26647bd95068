"""JM473 crowded-processor.

## What it does
Compares the threads of the whole machine that run or want to run with its cores, during the judged steps.

## Why it matters
Threads that wait for a core stop in the middle of an operator, and all threads of that operator wait for them at its
end. Steps become longer and uneven, on the host and by late launches on the device.

## Example
Four ranks on 16 cores, each with 16 threads of OpenMP and 8 loader workers with threads of their own.

## Use instead
```bash
OMP_NUM_THREADS=3 torchrun --nproc-per-node 4 train.py
```
and `torch.set_num_threads(1)` in the loader's workers, which PyTorch does by itself; OpenCV: `cv2.setNumThreads(0)`.

## Fix safety
No edit is made.

## References
PyTorch's tuning guide: threads and affinity on CPUs.
"""

from __future__ import annotations

import numpy as np

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.timing.profile import Profile
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM473",
    name="crowded-processor",
    summary="More threads want to run than there are cores.",
    severity=Severity.ADVICE,
    doc=__doc__,
)
LEAST_SAMPLES = 3
"""`jumar profile` takes ten a second."""


def find(profile: Profile) -> Outcomes:
    """Yield one finding where threads that run or want to are above the machine's cores by a factor in the median."""
    facts = profile.timeline.facts
    running = next((one for one in profile.timeline.counters if one.name == "runnable threads"), None)
    cores = facts.get("num_cores", "")
    if running is None or not cores.isdigit() or int(cores) < 1:
        yield not_checked(RULE, "the threads that want to run are not known; `jumar profile` notes them.")
        return
    inside = profile.time.hold(running.times_ns)
    median = float(np.median(running.values[inside])) if inside.any() else 0.0
    if int(inside.sum()) < LEAST_SAMPLES:
        yield not_checked(
            RULE, f"the judged steps hold {int(inside.sum())} samples of the host, and {LEAST_SAMPLES} are needed."
        )
        return
    if median < int(cores) * profile.thresholds.of("JM473", "factor"):
        return
    threads = facts.get("num_threads", "")
    of_threads = f"; each process has {threads} threads for operators" if threads.isdigit() else ""
    yield RULE.finding(
        f"{median:,.0f} threads ran or wanted to in the median, on the machine's {cores} cores{of_threads}.",
        evidence={"median_runnable": median, "num_cores": int(cores), "samples": int(inside.sum()),
                  **({"threads": int(threads)} if threads.isdigit() else {})},
        why="A thread without a core lets all threads of its operator wait; steps become longer and uneven.",
        action="Set OMP_NUM_THREADS to the cores of a rank (cores divided by ranks), use fewer loader workers.",
        confidence="likely",
    )  # fmt: skip
