"""`CompileWatch`: what torch.compile compiled, how long that took, and which guard had it compile again.

Reads the metrics that TorchDynamo keeps of its last 64 compilations, at each border of a step.
"""

from __future__ import annotations

import sys
from typing import Any

from jumar.capture.profile.log import EventLog
from jumar.capture.profile.watch.pauses import source_line


class CompileWatch:
    """Takes compilations since it was made into the log."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._seen = {_key(one) for one in _metrics()}
        self.num_compiles = 0
        self.reasons: dict[str, list[str]] = {}
        """By function (`forward train.py:12`): why it was compiled again, in the order of the compilations."""

    def poll(self) -> bool:
        """Take what is new; return whether there was anything."""
        found = [one for one in _metrics() if _key(one) not in self._seen]
        for one in found:
            self._seen.add(_key(one))
            self._take(one)
        return bool(found)

    def _take(self, one: Any) -> None:
        begin_us, duration_us = getattr(one, "start_time_us", None), getattr(one, "duration_us", None)
        if begin_us is None or duration_us is None:
            begin_us = int((getattr(one, "start_time", None) or 0) * 1e6)
            duration_us = int((getattr(one, "entire_frame_compile_time_s", None) or 0) * 1e6)
        if not begin_us or getattr(one, "co_name", None) is None:
            return  # compiled autograd, or a compilation that TorchDynamo gave up at once
        self.num_compiles += 1
        reason = str(getattr(one, "recompile_reason", None) or "")
        where = f"{one.co_name} {source_line(str(one.co_filename), int(one.co_firstlineno or 0))}"
        if reason:
            self.reasons.setdefault(where, []).append(reason)
        failure = str(getattr(one, "fail_reason", None) or "")
        about = {"reason": reason, "failure": failure, "id": str(getattr(one, "compile_id", ""))}
        self._log.add(
            f"{'recompile' if reason else 'compile'} {where}", begin_us * 1000, duration_us * 1000,
            **{name: text for name, text in about.items() if text},
        )  # fmt: skip


def _metrics() -> list[Any]:
    """Return the metrics of the last compilations; none where TorchDynamo was not used."""
    utils = sys.modules.get("torch._dynamo.utils")
    get = getattr(utils, "get_compilation_metrics", None)
    return list(get()) if get is not None else []


def _key(one: Any) -> tuple[str, Any]:
    return str(getattr(one, "compile_id", "")), getattr(one, "start_time", None)
