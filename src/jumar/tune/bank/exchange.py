"""The bank as JSON lines, in the shape of the vendor's runtime knowledge bank, and back.

One line an entry: `{"id", "op", "version", "info_dict", "knowledge"}`. The shape is the vendor's
(`*_runtime_kb.json`); what is in it is Jumar's: keys and policies of the device that was measured. CANN
cannot use such a line, and there is none that pretends otherwise. The candidates that were tried and lost are
left out, and so are tasks for which nothing was faster.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from jumar.findings import Json
from jumar.tune.bank.entry import Entry
from jumar.tune.errors import BankError
from jumar.tune.gate import Gain
from jumar.tune.machine import Machine
from jumar.tune.policy import Policy, stack_from_json
from jumar.tune.task import digest
from jumar.tune.work import work_from_json

VERSION = 0
"""The vendor's own value."""


def export_lines(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield a line for each entry that has a policy, without the newline."""
    for entry in entries:
        if entry.policy is None:
            continue
        info = {"task": entry.task.to_json(), "machine": asdict(entry.machine)}
        identity: dict[str, Json] = {
            "task": entry.task.identity(),
            "machine": asdict(entry.machine),
            "kind": entry.kind,
        }
        line = {
            "id": int(digest(identity)[:8], 16),
            "op": entry.task.base,
            "version": VERSION,
            "info_dict": info,
            "knowledge": {
                **entry.policy.to_json(),
                "gain": None if entry.gain is None else entry.gain.to_json(),
                "min_gain": entry.min_gain,
                "measured_against": [policy.to_json() for policy in entry.base],
                "created": entry.created,
                "updated": entry.updated,
            },
        }
        yield json.dumps(line, sort_keys=True)


def import_lines(lines: Iterable[str], name: str) -> list[Entry]:
    """Return the entries of the lines of a file called `name`; empty lines are passed over.

    Raises BankError, which names the line, for one that `export_lines` cannot have written.
    """
    entries = []
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                entries.append(_entry(json.loads(line)))
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise BankError(
                    f"{name}, line {number}: must be an entry that `jumar bank export` wrote; {_why(error)}. Nothing "
                    "was imported."
                ) from error
    return entries


def _entry(line: dict[str, Any]) -> Entry:
    info, knowledge = line["info_dict"], line["knowledge"]
    policy = Policy.from_json(knowledge)
    return Entry(
        task=work_from_json(info["task"]),
        machine=Machine.from_json(info["machine"]),
        kind=policy.kind,
        policy=policy,
        base=stack_from_json(knowledge["measured_against"]),
        gain=Gain.from_json(knowledge["gain"]),
        min_gain=float(knowledge["min_gain"]),
        tried=(),
        created=str(knowledge["created"]),
        updated=str(knowledge["updated"]),
    )


def _why(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"it lacks {error}"
    return str(error).splitlines()[0].rstrip(".")
