"""JM835 rank-table.

## What it does
Reads the file that RANK_TABLE_FILE names, or one given to `jumar doctor`, in the versions 1.0, 1.2 (super pods) and the
older form: status, version, counts, server, device and rank ids, addresses, ports, super pods.

## Why it matters
HCCL checks little of it and says only that the table is invalid, or waits for a rank that no server has until it times
out.

## Example
```
{"version": "1.0", "status": "completed", "server_count": "2", "server_list": [{"server_id": "node_0", ...}]}
```

## Use instead
```
{"version": "1.0", "status": "completed", "server_count": "1", "server_list": [{"server_id": "node_0", ...}]}
```

## Fix safety
No edit is made.

## References
HCCL user guide of CANN, "rank table"; hccl.json of MindCluster.
"""

from __future__ import annotations

from jumar.advise.checks import Outcomes
from jumar.advise.doctor.machine.host import Host
from jumar.advise.doctor.machine.parts import RankTable
from jumar.advise.doctor.rank_table import Fault, faults_of
from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule

RULE = Rule(
    code="JM835",
    name="rank-table",
    summary="The rank table breaks a rule.",
    severity=Severity.ERROR,
    doc=__doc__,
)


def find(host: Host) -> Outcomes:
    """Judge the table that RANK_TABLE_FILE names."""
    table = host.rank_table
    return [] if table is None else findings_of(table, dict(host.environ))


def findings_of(table: RankTable, environ: dict[str, str] | None = None) -> list[Finding]:
    """Return one finding for each broken rule of a table."""
    if table.text is None:
        fault = Fault(
            message="The rank table cannot be read.",
            action="Name a file that this user may read, or unset RANK_TABLE_FILE.",
        )
        return [_finding(table.path, fault)]
    return [_finding(table.path, fault) for fault in faults_of(table.text, environ)]


def _finding(path: str, fault: Fault) -> Finding:
    return RULE.finding(
        fault.message,
        severity=fault.severity,
        where=Location(path=path),
        why="HCCL refuses the table, or waits for ranks that never come.",
        action=fault.action,
    )
