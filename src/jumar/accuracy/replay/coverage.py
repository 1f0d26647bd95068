"""Which rows cannot be replayed at all, before anything is tried."""

from __future__ import annotations

from jumar.accuracy.canonical import ADOPTING, UNINITIALISED, canonical_name
from jumar.accuracy.replay.refusal import NotReplayable
from jumar.recording.schema import CallRow

_COLLECTIVES = ("c10d::", "_c10d_functional::", "_c10d_functional_autograd::", "c10d_functional::")


def check(row: CallRow) -> None:
    """Raise NotReplayable for a row that is no calculation of its recorded inputs."""
    if row.name.startswith(_COLLECTIVES):
        raise NotReplayable("collective", f"{row.name} is a collective: its result depends on the other ranks")
    name = canonical_name(row.name)
    if name in UNINITIALISED:
        raise NotReplayable("uninitialised", f"{row.name} returns memory as it is, not a result")
    if name in ADOPTING:
        raise NotReplayable("other", f"{row.name} shows memory that comes from elsewhere")
    if not row.outputs:
        raise NotReplayable("no tensor result", f"{row.name} returns no tensor that was recorded")
