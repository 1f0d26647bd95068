"""Logs while they grow: `Follower`."""

from __future__ import annotations

from jumar.advise.doctor.logs.follow.follower import Follower, News, Progress

__all__ = ["Follower", "News", "Progress"]
