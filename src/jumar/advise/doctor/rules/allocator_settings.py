"""JM810 allocator-setting.

## What it does
Reads PYTORCH_NPU_ALLOC_CONF (and PYTORCH_ALLOC_CONF, which means the same): whether both are set, whether
every item is `name:value` with a name that torch_npu knows, and whether expandable segments are on.

## Why it matters
torch_npu refuses to start when both variables are set, and stops at a name it does not know. Expandable
segments make fragmentation, the usual cause of "out of memory" with memory left, rare.

## Example
```
export PYTORCH_NPU_ALLOC_CONF=expandable_segment:True
```

## Use instead
```
export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True
```

## Fix safety
No edit is made.

## References
PYTORCH_NPU_ALLOC_CONF, environment variables of github.com/Ascend/pytorch; the vendor's advisor asks for
`expandable_segments:True`.
"""

from __future__ import annotations

import difflib
import re

from jumar.advise.checks import Outcomes
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule

OWN, SHARED = "PYTORCH_NPU_ALLOC_CONF", "PYTORCH_ALLOC_CONF"
KEYS = frozenset(
    {
        "max_split_size_mb",
        "garbage_collection_threshold",
        "expandable_segments",
        "base_addr_aligned_kb",
        "page_size",
        "segment_size_mb",
        "roundup_power2_divisions",
        "multi_stream_lazy_reclaim",
        "pinned_use_background_threads",
        "pin_memory_expandable_segments",
        "pinned_mem_register",
        "large_segment_size_mb",
        "per_process_memory_fraction",
        "throw_on_npumalloc_oom",
        "pinned_max_round_threshold_mb",
        "pinned_max_cached_size_mb",
        "max_non_split_rounding_mb",
        "release_lock_on_npumalloc",
    }
)

RULE = Rule(
    code="JM810",
    name="allocator-setting",
    summary="The memory allocator's settings are contradictory, misspelt, or leave fragmentation.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(host: Host) -> Outcomes:
    """Judge the allocator's variables."""
    own, shared = host.value(OWN), host.value(SHARED)
    if own is not None and shared is not None:
        return [
            RULE.finding(
                f"{OWN} and {SHARED} are both set; torch_npu ends with an error then.",
                evidence={OWN: own, SHARED: shared},
                action=f"unset {OWN}",
                severity=Severity.ERROR if host.has_npu_software else Severity.WARNING,
            )
        ]
    if own is None:
        return [_no_segments("is not set")] if host.has_npu_software and shared is None else []
    names = [item.partition(":")[0].strip() for item in re.sub(r"\[.*?\]", "", own).split(",") if item.strip()]
    unknown = [name for name in names if name not in KEYS]
    if unknown:
        return [_unknown(name) for name in unknown]
    expandable = re.search(r"(?<!memory_)expandable_segments:\s*True", own)
    return [] if expandable or not host.has_npu_software else [_no_segments(f"is {own!r}")]


def _unknown(name: str) -> Finding:
    near = difflib.get_close_matches(name, KEYS, n=1)
    return RULE.finding(
        f"{OWN} has the name {name!r}, which torch_npu does not know.",
        severity=Severity.WARNING,
        evidence={"name": name},
        action=f"Write {near[0]}." if near else "Compare it with torch_npu's page of the variable.",
        confidence="likely",
    )


def _no_segments(state: str) -> Finding:
    return RULE.finding(
        f"{OWN} {state}: memory is taken in segments that cannot grow.",
        severity=Severity.ADVICE,
        why="Changing sizes leave gaps that no request fits. The run then ends out of memory although memory is left.",
        action=f"export {OWN}=expandable_segments:True",
    )
