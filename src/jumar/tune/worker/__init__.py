"""The worker: a process that forks one child a candidate, so that a crash costs that candidate only.

`client` is the tuner's end, `nursery` the process that forks, `trial` what a child does, `messages`
what they say to each other.
"""

from __future__ import annotations

from jumar.tune.worker.client import Worker
from jumar.tune.worker.messages import Limits, Outcome, Trial

__all__ = ["Limits", "Outcome", "Trial", "Worker"]
