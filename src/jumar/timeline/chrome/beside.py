"""What `jumar profile` wrote beside a trace: threads, cores, governors of the host, and the profiler's own cost."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

LONGEST = 1 << 20
"""Bytes of `profile.json` that are read at most."""


def facts_beside(trace: Path, rank: int) -> dict[str, str]:
    """Return facts of a rank's run from files in its trace's folder; nothing where there are none, or damaged ones.

    `run_device` (`cpu` where the program used no other), `num_threads`, `num_cores`, `governors`, `plain_step_ms`,
    `traced_step_ms`, `overhead_is_noise`.
    """
    profile = _first_object(trace.with_name("profile.json"), whole=True)
    if profile.get("format") != "jumar-profile":
        return {}
    host = _first_object(trace.with_name(f"host-rank-{rank}.jsonl"), whole=False)
    own = _inside(profile, "ranks", str(rank))
    cost = _inside(own, "overhead")
    governors = host.get("governors")
    found = {
        "run_device": own.get("device"),
        "num_threads": profile.get("num_threads"),
        "num_cores": host.get("num_cores"),
        "governors": ",".join(map(str, governors)) if isinstance(governors, list) else None,
        "plain_step_ms": _inside(cost, "plain_ms").get("median"),
        "traced_step_ms": _inside(cost, "traced_ms").get("median"),
        "overhead_is_noise": cost.get("is_within_noise"),
    }
    return {name: str(value) for name, value in found.items() if value not in (None, "")}


def _first_object(path: Path, *, whole: bool) -> dict[str, Any]:
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            found = json.loads(file.read(LONGEST) if whole else file.readline(LONGEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _inside(document: Mapping[str, Any], *path: str) -> dict[str, Any]:
    for key in path:
        below = document.get(key)
        document = below if isinstance(below, dict) else {}
    return dict(document)
