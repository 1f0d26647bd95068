"""The bank as JSON lines, in the shape of the vendor's runtime knowledge bank.

One line an entry: `{"id", "op", "version", "info_dict", "knowledge"}`. The shape is the vendor's
(`*_runtime_kb.json`); what is in it is Jumar's: keys and policies of the device that was measured. CANN
cannot use such a line, and there is none that pretends otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict

from jumar.tune.bank.entry import Entry
from jumar.tune.task import digest

VERSION = 0
"""The vendor's own value."""


def export_lines(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield a line for each entry that has a policy, without the newline."""
    for entry in entries:
        if entry.policy is None:
            continue
        info = {"task": entry.task.identity(), "machine": asdict(entry.machine)}
        line = {
            "id": int(digest({**info, "kind": entry.kind})[:8], 16),
            "op": entry.task.base,
            "version": VERSION,
            "info_dict": info,
            "knowledge": {
                **entry.policy.to_json(),
                "gain": None if entry.gain is None else entry.gain.to_json(),
                "measured_against": [policy.to_json() for policy in entry.base],
            },
        }
        yield json.dumps(line, sort_keys=True)
