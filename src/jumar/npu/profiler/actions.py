"""What the profiler does between two steps, by its action in each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jumar.npu.profiler.messages import warn
from jumar.npu.profiler.profiler_interface import _ProfInterface
from jumar.npu.profiler.scheduler import ProfilerAction

_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


class ActionController:
    """Moves a collection from one action to the next; `None` is the end of the profiler."""

    def __init__(self, profiler: Any, interface: _ProfInterface, on_trace_ready: Callable[[Any], Any] | None) -> None:
        self._profiler = profiler
        self._interface = interface
        self._on_trace_ready = on_trace_ready

    def transit(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        """Do what lies between the two."""
        if before is after and before is not ProfilerAction.RECORD_AND_SAVE:
            return
        if before is ProfilerAction.RECORD and after is ProfilerAction.RECORD_AND_SAVE:
            return
        if before is ProfilerAction.WARMUP and after in _RECORDING:
            self._interface.start_trace()
            return
        self._leave(before, after)
        if after is not None:
            self._enter(after)

    def _leave(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        interface = self._interface
        if before is ProfilerAction.NONE:
            return
        if before is ProfilerAction.WARMUP:
            self._complain(before, after)
            interface.delete_prof_dir()
            return
        if before is ProfilerAction.RECORD or after is None:
            self._complain(before, after)
        interface.stop_trace()
        interface.finalize_trace()
        if (before is ProfilerAction.RECORD_AND_SAVE or after is None) and self._on_trace_ready is not None:
            self._on_trace_ready(self._profiler)

    def _enter(self, after: ProfilerAction) -> None:
        if after is ProfilerAction.NONE:
            return
        self._interface.init_trace()
        if after is ProfilerAction.WARMUP:
            self._interface.warmup_trace()
        else:
            self._interface.start_trace()

    def _complain(self, before: ProfilerAction, after: ProfilerAction | None) -> None:
        if after is not None:
            warn(f"Incorrect schedule: {before.name} followed by {after.name}")
        elif before is ProfilerAction.WARMUP:
            warn(
                "Incorrect schedule: Stop profiler while current state is WARMUP "
                "which will result in empty parsed data."
            )
        elif before is ProfilerAction.RECORD_AND_SAVE:
            warn(
                "Stop profiler while current state is RECORD_AND_SAVE, "
                "perhaps the scheduling cycle has not yet completed."
            )
        elif self._profiler.record_steps:
            warn(
                "Incorrect schedule: Stop profiler while current state is RECORD "
                "which may result in incomplete parsed data."
            )
