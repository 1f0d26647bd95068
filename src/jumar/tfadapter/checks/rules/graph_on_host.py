"""JM612 graph-on-host.

## What it does
Finds sessions for the NPU whose `use_off_line` is False, or is not set (for information: older versions need it).

## Why it matters
Without `use_off_line` the graph runs on the host, and no operator on the NPU.

## Example
```python
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["use_off_line"].b = False
```

## Use instead
```python
custom_op.name = "NpuOptimizer"
custom_op.parameter_map["use_off_line"].b = True
```

## Fix safety
No edit is made.

## References
Document on overflow collection, the example for sess.run.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from jumar.base.findings import Finding, Location, Severity
from jumar.base.rules import Rule
from jumar.tfadapter.checks.subject import Given, where
from jumar.tfadapter.options import Setting
from jumar.tfadapter.source.script import NpuSession

RULE = Rule(
    code="JM612",
    name="graph-on-host",
    summary="A session for the NPU runs its graph on the host.",
    severity=Severity.WARNING,
    doc=__doc__,
)


OPTION = "use_off_line"
OPTIMIZER = "NpuOptimizer"


def find(given: Given) -> Iterator[Finding]:
    """Yield one finding for each session that has the option off, or does not set it."""
    for setting in given.settings:
        if setting.style == "session" and setting.name == OPTION and setting.value is False:
            yield _is_off(setting)
    for session, script in given.sessions():
        unclear = script.unread or script.completed
        if session.name == OPTIMIZER and not unclear and not _is_set(given, script.path, session):
            yield _is_missing(session, script.path)


def _is_set(given: Given, path: Path, session: NpuSession) -> bool:
    """Tell whether the option is set in the session, or under an optimizer that the reader cannot follow."""
    others = {f"{path}:{one.group}" for one, _ in given.sessions()} - {f"{path}:{session.group}"}
    return any(one.style == "session" and one.name == OPTION and one.group not in others for one in given.settings)


def _is_off(setting: Setting) -> Finding:
    return RULE.finding(
        f"{OPTION} is False: the graph runs on the host.",
        where=where(setting),
        evidence={"option": OPTION},
        why="No operator runs on the NPU.",
        action=f"Set {OPTION} to True, unless this is what you want.",
        confidence="likely",
    )


def _is_missing(session: NpuSession, path: Path) -> Finding:
    return RULE.finding(
        f"{OPTION} is not set for the session.",
        where=Location(path=str(path), line=session.line),
        evidence={"option": OPTION},
        why="The documents' examples set it to True; without it, older versions run the graph on the host.",
        action=f'Add {session.variable}.parameter_map["{OPTION}"].b = True.',
        severity=Severity.INFO,
        confidence="possible",
    )
