"""JM608 missing-path.

## What it does
Looks for the paths of options that need one: `dump_path`, `work_path`, configuration files. An option that is on and
needs a path (`enable_dump_debug` needs `dump_path`) must have one.

## Why it matters
The adapter does not make the folder. The run stops, or nothing is written.

## Example
```python
DumpConfig(enable_dump_debug=True)
```

## Use instead
```python
os.makedirs("/data/dump", exist_ok=True)
DumpConfig(enable_dump_debug=True, dump_path="/data/dump")
```

## Fix safety
No edit is made. The paths are those of this machine: on another one they may be there.

## References
Document on overflow collection: the folder is made beforehand, readable and writable.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from jumar.base.findings import Finding, Severity
from jumar.base.rules import Rule
from jumar.tfadapter.checks.subject import Given, is_told, shown, text_of, where
from jumar.tfadapter.options import Setting

RULE = Rule(
    code="JM608",
    name="missing-path",
    summary="A path that must exist is not there.",
    severity=Severity.WARNING,
    doc=__doc__,
)


DUMPS = ("enable_dump", "enable_dump_debug")


def find(given: Given) -> Iterator[Finding]:
    """Yield one finding for each path that is missing here, and for each dump without one."""
    yield from _without_path(given)
    if not given.paths:
        return
    for setting, option in given.known():
        if option.path and is_told(setting.value) and text_of(setting.value):
            told = _wrong(Path(text_of(setting.value)), option.path == "is written")
            if told:
                yield RULE.finding(
                    f"{shown(setting)}: {told}",
                    where=where(setting),
                    evidence={"option": setting.name, "path": text_of(setting.value)},
                    why="The adapter makes no folder and no file.",
                    action=_action(Path(text_of(setting.value)), option.path == "is written"),
                    confidence="possible",
                )


def _action(path: Path, is_written: bool) -> str:
    if path.exists():
        return f"Give the user that runs the right to it: {path}"
    return (
        f"Make it first, on the machine that runs: mkdir -p {path}"
        if is_written
        else "Write it first, or name another."
    )


def _wrong(path: Path, is_written: bool) -> str:
    if not path.exists():
        return "it does not exist on this machine."
    if not os.access(path, os.R_OK):
        return "it cannot be read by this user."
    return "it cannot be written by this user." if is_written and not os.access(path, os.W_OK) else ""


def _without_path(given: Given) -> Iterator[Finding]:
    for setting in given.settings:
        last = setting.name.rpartition(".")[2]
        if last in DUMPS and setting.value is True and not _has_path(given, setting) and not given.has_unread(setting):
            yield RULE.finding(
                f"{setting.name} is on, and dump_path is not set.",
                where=where(setting),
                evidence={"option": setting.name},
                why="The dump needs a folder that is there before the run.",
                action="Set dump_path to a folder that exists.",
                severity=Severity.ERROR,
            )


def _has_path(given: Given, dump: Setting) -> bool:
    """Tell whether a path is set in the dump's style: another module may set it for the same session."""
    return any(one.name.rpartition(".")[2] == "dump_path" and one.style == dump.style for one in given.settings)
