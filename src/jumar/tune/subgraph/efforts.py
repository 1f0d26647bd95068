"""How long each kind of measurement takes: quick ones for many candidates, long ones for few."""

from __future__ import annotations

from dataclasses import replace

from jumar.tune.options import TuneOptions
from jumar.tune.worker.messages import Effort

_QUICK_PAIRS = 7
"""The fewest pairs with a bounded 95 % interval are six."""


def quick(options: TuneOptions) -> Effort:
    """Return the effort of a first look: enough to tell 5 % from 50 %."""
    effort = options.screening
    return replace(effort, min_pairs=min(_QUICK_PAIRS, effort.min_pairs), max_pairs=min(31, effort.max_pairs))


def duel(options: TuneOptions) -> Effort:
    """Return the effort of a comparison of two leaders."""
    return options.screening


def final(options: TuneOptions) -> Effort:
    """Return the effort of a confirmation."""
    return options.confirmation
