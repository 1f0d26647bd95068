"""Writes traces as Kineto does, for tests."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

Event = dict[str, Any]


def event(name: str, ts: Any, dur: Any, cat: str = "cpu_op", tid: Any = 1, **args: Any) -> Event:
    """Return an event with a length; `ts` and `dur` are microseconds."""
    pid = 0 if cat in {"kernel", "gpu_memcpy", "gpu_user_annotation"} else 7
    return {"ph": "X", "cat": cat, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


def thread(name: str, tid: int, pid: int = 7) -> Event:
    return {"ph": "M", "name": "thread_name", "ts": 0, "pid": pid, "tid": tid, "args": {"name": name}}


def text(events: Sequence[Event], indent: int | None = 2, **head: Any) -> str:
    return json.dumps({"schemaVersion": 1, **head, "traceEvents": list(events), "traceName": "x"}, indent=indent)


def write(path: Path, events: Sequence[Event], indent: int | None = 2, **head: Any) -> Path:
    path.write_text(text(events, indent, **head), "utf-8")
    return path
