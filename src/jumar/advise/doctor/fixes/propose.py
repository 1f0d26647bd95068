"""`propose`: which changes the findings ask for that can be undone, and which are left to a person, and why."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from jumar.advise.doctor.fixes.change import Change
from jumar.advise.doctor.fixes.settings import setting_changes
from jumar.advise.doctor.fixes.stale import stale_changes
from jumar.advise.doctor.fixes.variables import variable_changes
from jumar.advise.doctor.machine.host import Host
from jumar.base.findings import Finding, Severity

REASONS = {
    "JM801": "it would install packages; the versions are yours to choose",
    "JM802": "it would install packages; the versions are yours to choose",
    "JM803": "it would replace packages; the versions are yours to choose",
    "JM805": "device files and groups are the administrator's",
    "JM807": "only you know which counterpart the program needs",
    "JM813": "a running container cannot be given other limits from inside",
    "JM816": "it would end processes, and nothing brings them back",
    "JM817": "it would delete files, and nothing brings them back",
    "JM822": "a running container cannot be given other limits from inside",
    "JM823": "the process must be started on other cores",
    "JM825": "mounts and caches are yours to choose",
    "JM826": "it would install CANN or packages",
    "JM827": "it would install another Python",
    "JM828": "driver and firmware are installed by the administrator, with a restart",
    "JM829": "it would end processes, and nothing brings them back",
    "JM830": "a chip that is not healthy is mended by the administrator",
    "JM835": "a rank table is written by its scheduler, or by you",
    "JM838": "/etc/hosts is used by every program of the machine",
    "JM839": "addresses of devices are the administrator's",
    "JM842": "a service of the system would be started",
    "JM845": "it would need another system or Python",
}
_OTHERWISE = "there is no change for it that can be undone"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """A finding that is not mended, and why."""

    code: str
    message: str
    reason: str
    action: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What can be done, and what is left to a person."""

    changes: tuple[Change, ...]
    refusals: tuple[Refusal, ...]


def propose(
    host: Host, findings: Sequence[Finding], *, folder: Path, root: Path = Path("/"), now: datetime | None = None
) -> Proposal:
    """Return the changes for these findings; `folder` is where the file with variables is written."""
    moment = now or datetime.now().astimezone()
    changes: list[Change] = [
        *setting_changes(host, findings, root),
        *variable_changes(host, findings, folder),
        *stale_changes(host, findings, moment),
    ]
    mended = {code for change in changes for code in re.split(r"[,\s]+", change.code)}
    return Proposal(changes=tuple(changes), refusals=tuple(_refused(findings, mended)))


def _refused(findings: Sequence[Finding], mended: set[str]) -> Iterator[Refusal]:
    for finding in findings:
        if finding.code in mended or finding.severity < Severity.ADVICE:
            continue
        yield Refusal(
            code=finding.code,
            message=finding.message,
            reason=REASONS.get(finding.code, _OTHERWISE),
            action=finding.action,
        )
