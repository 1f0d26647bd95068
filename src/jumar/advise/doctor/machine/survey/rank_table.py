"""`survey_rank_table`: the file that RANK_TABLE_FILE names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from jumar.advise.doctor.machine.parts import RankTable

VARIABLE = "RANK_TABLE_FILE"


def survey_rank_table(environ: Mapping[str, str]) -> RankTable | None:
    """Return the text of the rank table; None where no variable names one."""
    path = environ.get(VARIABLE, "").strip()
    if not path:
        return None
    try:
        return RankTable(path=path, text=Path(path).read_text("utf-8", "replace"))
    except OSError:
        return RankTable(path=path)
