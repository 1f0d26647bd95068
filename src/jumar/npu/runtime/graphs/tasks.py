"""Task groups: operators of a graph that are recorded together, and can be recorded again with other arguments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from jumar.npu.runtime.graphs.capture import Call, Recorder, Recording
from jumar.npu.runtime.graphs.graph import capturing_recording

__all__ = ["graph_task_group_begin", "graph_task_group_end", "graph_task_update_begin", "graph_task_update_end"]


@dataclass(frozen=True, slots=True)
class TaskGroup:
    """The operators between a begin and an end, in the record of their graph."""

    calls: tuple[Call, ...]


@dataclass(slots=True)
class _Update:
    group: TaskGroup
    recorder: Recorder


_begun: dict[Any, int] = {}
"""Stream -> where its group begins in the record."""
_updates: dict[Any, _Update] = {}


def graph_task_group_begin(stream: Any) -> None:
    """Begin a group on the stream that is being captured. Raises RuntimeError on another, or within a group."""
    recording = capturing_recording(stream)
    if stream in _begun:
        raise RuntimeError("a task group has already begun on this stream; end it first.")
    _begun[stream] = len(recording.calls)


def graph_task_group_end(stream: Any) -> TaskGroup:
    """End the group and return its handle. Raises RuntimeError where none has begun."""
    recording = capturing_recording(stream)
    if stream not in _begun:
        raise RuntimeError("no task group has begun on this stream.")
    return TaskGroup(tuple(recording.calls[_begun.pop(stream) :]))


def graph_task_update_begin(stream: Any, handle: TaskGroup) -> None:
    """Begin to record the operators of a group again; they change no memory. Raises RuntimeError within an update."""
    if _updates:
        raise RuntimeError("another task group is being updated; end that update first.")
    update = _Update(handle, Recorder(Recording()))
    _updates[stream] = update
    update.recorder.__enter__()


def graph_task_update_end(stream: Any) -> None:
    """Let the group's replays take the new arguments.

    Raises RuntimeError where no update has begun, and for other operators than those of the group.
    """
    if stream not in _updates:
        raise RuntimeError("no update of a task group has begun on this stream.")
    update = _updates.pop(stream)
    update.recorder.__exit__(None, None, None)
    recording = update.recorder.recording
    recording.put_back()
    old, new = ([call.op_cache_entry for call in calls] for calls in (update.group.calls, recording.calls))
    if old != new:
        named = [", ".join(str(operator) for operator in operators) for operators in (old, new)]
        raise RuntimeError(f"an update must run the operators of its group, which are {named[0]}; got {named[1]}.")
    for call, changed in zip(update.group.calls, recording.calls, strict=True):
        call.args, call.kwargs = changed.args, changed.kwargs


def super_kernel_scope_begin(scope_name: str | None = None) -> None:
    """Accept the beginning of a scope of fused kernels, which changes nothing. RuntimeError for an empty name."""
    _check(scope_name)


def super_kernel_scope_end(scope_name: str | None = None) -> None:
    """Accept the end of a scope. Raises RuntimeError for an empty name."""
    _check(scope_name)


def _check(scope_name: str | None) -> None:
    if scope_name is not None and not scope_name.strip():
        raise RuntimeError("scope_name should be None or a non-empty string.")
