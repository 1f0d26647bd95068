"""What a program does once before its first step, which a recording has in its first step."""

from __future__ import annotations

from collections.abc import Sequence

from jumar.recording.schema import CallRow


def without_setup(first: Sequence[CallRow], second: Sequence[CallRow]) -> list[CallRow]:
    """Return the rows of step 0 without those of set-up (weights drawn, the model moved to the device).

    Set-up is what runs outside modules, before a module is first called, and on a line that does not
    call that operator in the next step. Without module calls nothing is left out.
    """
    start_us = min((row.start_us for row in first if row.phase == "forward" and _in_module(row)), default=0.0)
    again = {_place(row) for row in second}
    return [
        row for row in first if row.kind != "op" or row.module_type or row.start_us >= start_us or _place(row) in again
    ]


def _in_module(row: CallRow) -> bool:
    return row.kind == "module" or bool(row.module_type)


def _place(row: CallRow) -> tuple[str, str, str]:
    return row.phase, row.name, row.source
