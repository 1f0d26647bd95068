"""The page of a tuning run: what is faster and how sure, how the search went, where the time went."""

from __future__ import annotations

from jumar.show.tuning.page import tuning_page
from jumar.show.tuning.run import TuningRun

__all__ = ["TuningRun", "tuning_page"]
