"""Two profiles: what became slower or faster, beyond the noise."""

from __future__ import annotations

from jumar.advise.against.compare import Change, ProfileComparison, compare_timelines

__all__ = ["Change", "ProfileComparison", "compare_timelines"]
