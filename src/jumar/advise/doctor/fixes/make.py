"""`make`: write the script that undoes all of it, then make the changes one after another."""

from __future__ import annotations

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from jumar.advise.doctor.fixes.change import Change, Run, run_command
from jumar.base import files


@dataclass(frozen=True, slots=True, kw_only=True)
class Made:
    """What became of the changes."""

    undo: Path | None
    """The script; None where nothing was to be made."""
    made: tuple[Change, ...] = ()
    failed: tuple[tuple[Change, str], ...] = ()
    """Each change that could not be made, and why."""


def make(changes: Sequence[Change], folder: Path, *, now: datetime | None = None, run: Run = run_command) -> Made:
    """Make the changes; `jumar-doctor-undo-TIME.sh` in `folder` is whole before the first of them.

    Its lines take back also what was not made yet without harm, so it is right after a crash at any moment. A change
    that fails does not stop the others. Raises OutputError where the script cannot be written: nothing is changed then.
    """
    if not changes:
        return Made(undo=None)
    undo = _new_name(folder, now or datetime.now().astimezone())
    with files.explained(undo, "start in a folder you can write to; nothing was changed"):
        files.write_text(undo, undo_script(changes))
        undo.chmod(0o755)
    made: list[Change] = []
    failed: list[tuple[Change, str]] = []
    for change in changes:
        try:
            change.make(run)
        except OSError as error:
            failed.append((change, error.strerror or str(error)))
        else:
            made.append(change)
    return Made(undo=undo, made=tuple(made), failed=tuple(failed))


def undo_script(changes: Sequence[Change]) -> str:
    """Return the script: the last change is taken back first, and one that cannot be does not stop the rest."""
    lines = [
        "#!/bin/sh",
        "# Takes back what jumar doctor --fix changed. Steps may be repeated, also where nothing was changed.",
        "failed=0",
    ]
    for change in reversed(changes):
        lines.append(f"echo {shlex.quote('Taking back: ' + change.title)}")
        lines += [f"{{ {line}; }} || failed=1" for line in change.undo()]
    return "\n".join([*lines, "exit $failed", ""])


def _new_name(folder: Path, now: datetime) -> Path:
    stem = f"jumar-doctor-undo-{now:%Y%m%d-%H%M%S}"
    names = [folder / f"{stem}.sh", *(folder / f"{stem}-{number}.sh" for number in range(2, 1000))]
    return next((name for name in names if not os.path.lexists(name)), names[-1])
