"""`Assessed`, which the rules of the assessment look at, and how the rules show the places of a row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jumar.base.findings import Json, Location
from jumar.convert.assess.model import Row
from jumar.convert.assess.triton_kernels import Kernel
from jumar.convert.rules.residue.other_release import RefusedCall
from jumar.soc.support import SupportTables


@dataclass(frozen=True, slots=True)
class Assessed:
    """The rows of one assessment, the tables of the SoC that decided their status, and a source's Triton kernels."""

    rows: Sequence[Row]
    tables: SupportTables
    kernels: Sequence[Kernel] = ()
    refused: Sequence[RefusedCall] = ()
    """Calls with arguments that the release does not take."""


MAX_PLACES = 20
"""Places written into a finding's evidence; the rows of the assessment have all of them."""


def first_place(row: Row) -> Location:
    """Return the row's first place, with the operator's name for a row of a recording."""
    if row.where:
        return row.where[0]
    return Location(operator=row.name if row.kind == "operator" else None)


def evidence(row: Row) -> dict[str, Json]:
    """Return the numbers and places of a row for a finding."""
    found: dict[str, Json] = {
        "name": row.name,
        "num_uses": row.num_uses,
        "places": shown(row.where),
        "table": row.source,
    }
    if row.kind == "operator":
        found["dtypes"] = list(row.dtypes)
        found["duration_us"] = row.duration_us
        found["share_of_operator_time"] = None if row.share is None else round(row.share, 4)
    return found


def shown(places: Sequence[Location]) -> list[Json]:
    """Return the first places as text, with a last item that counts the rest."""
    texts: list[Json] = [str(place) for place in places[:MAX_PLACES]]
    if len(places) > MAX_PLACES:
        texts.append(f"and {len(places) - MAX_PLACES} more")
    return texts


def times(count: int, noun: str) -> str:
    """Return `3 calls`, `1 call`."""
    return f"{count} {noun}{'' if count == 1 else 's'}"
