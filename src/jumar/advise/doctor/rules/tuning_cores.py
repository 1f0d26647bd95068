"""JM820 tuning-cores.

## What it does
Where tuning is on (AOE_MODE), compares the cores that this process can have with the guide's formulas: for operators
processes × (TE_PARALLEL_COMPILER + TUNING_PARALLEL_NUM + min(cores / 2, 8) + 50), for subgraphs
processes × (2 × TUNING_PARALLEL_NUM + TE_PARALLEL_COMPILER). It also reports a process that is bound to some
of the cores.

## Why it matters
Tuning compiles and measures in many processes. With too few cores they wait for each other, and times are measured
wrongly. The guide asks not to bind the process to cores.

## Example
```
export AOE_MODE=2        # on 16 cores: 74 are asked for
```

## Use instead
```
export TE_PARALLEL_COMPILER=2
```
or a host with more cores.

## Fix safety
No edit is made.

## References
The vendor's guide to subgraph and operator tuning, "before tuning"; `aoe.ini` holds TUNING_PARALLEL_NUM (8 by default).
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes, not_checked
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM820",
    name="tuning-cores",
    summary="The host has fewer cores than the vendor's formula for tuning asks for.",
    severity=Severity.ADVICE,
    doc=__doc__,
)

TUNING = "AOE_MODE"
DEFAULT = 8
"""Of TE_PARALLEL_COMPILER and of TUNING_PARALLEL_NUM."""
SUBGRAPHS, OPERATORS = "1", "2"


def find(host: Host) -> Outcomes:
    """Compare cores and formulas, where tuning is on."""
    modes = [mode for mode in (SUBGRAPHS, OPERATORS) if mode in (host.value(TUNING) or "")]
    if not modes:
        return
    cores = host.cores.effective
    if cores is None:
        yield not_checked(RULE, "the number of cores is unknown here.")
        return
    for mode in modes:
        asked = cores_asked(host, mode, cores)
        if cores < asked:
            what = "operators" if mode == OPERATORS else "subgraphs"
            yield RULE.finding(
                f"Tuning {what} asks for {asked:g} cores here, and this process can have {cores:g}.",
                evidence={"asked_cores": asked, "cores": cores, "mode": mode},
                why="Compiling and measuring run side by side; too few cores slow both and spoil the times.",
                action="Lower TE_PARALLEL_COMPILER and TUNING_PARALLEL_NUM, or tune on a host with more cores.",
            )
    total, allowed = host.cores.num_cores, len(host.placement.allowed_cores)
    if total is not None and 0 < allowed < total:
        yield RULE.finding(
            f"This process is bound to {allowed} of {total} cores, and tuning is on.",
            evidence={"allowed_cores": allowed, "cores": total},
            why="The vendor's guide asks to leave the choice of cores to the system while tuning.",
            action="Start it without taskset, numactl or a set of cores of the container.",
        )


def cores_asked(host: Host, mode: str, cores: float) -> float:
    """Return the cores that the guide's formula asks for."""
    compilers = host.number("TE_PARALLEL_COMPILER") or DEFAULT
    tunings = host.software.parallel_tunings or DEFAULT
    if mode == SUBGRAPHS:
        return host.num_processes * (2 * tunings + compilers)
    return host.num_processes * (compilers + tunings + min(cores / 2, 8) + 50)
