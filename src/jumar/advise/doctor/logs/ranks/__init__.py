"""The logs of many ranks: which failed first, which followed, which are silent or missing, and whose clock is wrong."""

from __future__ import annotations

from jumar.advise.doctor.logs.ranks.order import in_order, order_note
from jumar.advise.doctor.logs.ranks.skew import Skew, skew_of
from jumar.advise.doctor.logs.ranks.summary import RankGroup, RankSummary, SilentRank, ranges_text, summary_of

__all__ = [
    "RankGroup",
    "RankSummary",
    "SilentRank",
    "Skew",
    "in_order",
    "order_note",
    "ranges_text",
    "skew_of",
    "summary_of",
]
