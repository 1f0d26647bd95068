"""What the timelines of several ranks say together: which rank the others wait for."""

from __future__ import annotations

from jumar.advise.ranks.ranks import Ranks, judge_ranks

__all__ = ["Ranks", "judge_ranks"]
