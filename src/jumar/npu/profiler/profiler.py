"""`torch_npu.profiler.profiler`: `profile`, the handler that writes its files, and their later writing.

The vendor's classes and checks; what they write is estimated (see `timeline`).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from jumar.npu.profiler.actions import ActionController
from jumar.npu.profiler.collect.collected import Profile
from jumar.npu.profiler.experimental_config import ExportType, _ExperimentalConfig
from jumar.npu.profiler.files import write_chrome_trace, write_stacks, write_text
from jumar.npu.profiler.files.paths import CREATOR, FRAMEWORK
from jumar.npu.profiler.messages import never_raises, warn, warned_bool
from jumar.npu.profiler.profiler_interface import ProfilerActivity, _ProfInterface, supported_activities
from jumar.npu.profiler.scheduler import ProfilerAction, _default_schedule_fn
from jumar.npu.runtime.mstx import mstx

__all__ = ["analyse", "profile", "supported_activities", "tensorboard_trace_handler"]

_MAX_TEXT = 4096
_METRICS = ("self_cpu_time_total", "self_npu_time_total")


class _KinetoProfile:
    """A profile that records from `start` to `stop`, with the options of `profile` that say what to record."""

    def __init__(self, **options: Any) -> None:
        self.metadata: dict[str, Any] = {}
        self.prof_if = _ProfInterface(metadata=self.metadata, **options)

    @never_raises
    def start(self) -> None:
        """Begin to record."""
        CREATOR.configure(export_only=True)
        self.prof_if.init_trace()
        self.prof_if.start_trace()

    @never_raises
    def stop(self) -> None:
        """End recording."""
        self.prof_if.stop_trace()
        self.prof_if.finalize_trace()

    @never_raises
    def export_chrome_trace(self, output_path: str) -> None:
        """Write the trace of the last recording to a file."""
        made = self._made()
        if made is not None:
            write_chrome_trace(Path(output_path), made)

    @never_raises
    def export_stacks(self, output_path: str, metric: str = "self_cpu_time_total") -> None:
        """Write call stacks with the time spent in them; needs `with_stack=True`."""
        if not self.prof_if.with_stack:
            warn("Function export_stacks() requires with_stack=True.")
            return
        if metric not in _METRICS:
            warn(f"Metric should be {' or '.join(_METRICS)}. Here it is presumed to be {_METRICS[0]}.")
            metric = _METRICS[0]
        made = self._made()
        if made is not None:
            write_stacks(Path(output_path), made, metric)

    @never_raises
    def export_memory_timeline(self, output_path: str, device: str | None = None) -> None:
        """Say that this is not emulated, and what to use."""
        warn("export_memory_timeline is not emulated: use profile_memory=True and read operator_memory.csv.")

    @never_raises
    def add_metadata(self, key: str, value: str) -> None:
        """Add a line of text to profiler_metadata.json."""
        if self._is_metadata(key, value):
            self.metadata[key] = value

    @never_raises
    def add_metadata_json(self, key: str, value: str) -> None:
        """Add a JSON text to profiler_metadata.json."""
        if not self._is_metadata(key, value):
            return
        try:
            self.metadata[key] = json.loads(value)
        except ValueError:
            warn("The metadata value must be json format string. Skip this metadata")

    def _is_metadata(self, key: Any, value: Any) -> bool:
        if not isinstance(key, str) or not isinstance(value, str):
            warn("The key and value of metadata must be string. Skip this metadata.")
            return False
        if max(len(key), len(value)) > _MAX_TEXT:
            warn("Invalid input key or value. Skip this metadata.")
            return False
        if key in self.metadata:
            warn(f"{key} is already saved as metadata, override it.")
        return True

    def _made(self) -> Profile | None:
        if self.prof_if.profile is None:
            warn("Invalid profiling path.")
        return self.prof_if.profile


class profile(_KinetoProfile):
    """Records steps as `schedule` says, and gives itself to `on_trace_ready` when a recording is complete."""

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[..., Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: _ExperimentalConfig | None = None,
        execution_trace_observer: Any = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        use_cuda: bool | None = None,
    ) -> None:
        schedule = _callable("schedule", schedule)
        on_trace_ready = _callable("on_trace_ready", on_trace_ready)
        if use_cuda is not None:
            warn("This is npu environment, use_cuda is invalid")
        self.schedule = schedule or _default_schedule_fn
        self.record_steps = schedule is not None
        super().__init__(
            activities=activities,
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            custom_trace_id_callback=custom_trace_id_callback,
            schedule=self.schedule,
        )
        self.execution_trace_observer = execution_trace_observer
        self.on_trace_ready = on_trace_ready
        self.step_num = 0
        self.current_action = self.schedule(self.step_num)
        self.stopped = True
        self.action_controller = ActionController(self, self.prof_if, on_trace_ready)
        self._offset = 0
        self._range: Any = None
        self._mark = 0

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @never_raises
    def start(self) -> None:
        """Begin with step 0."""
        self.stopped = False
        if self.on_trace_ready is None:
            CREATOR.configure(export_only=True)
        self.action_controller.transit(ProfilerAction.NONE, self.current_action)
        self._begin_step()
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.start()

    @never_raises
    def step(self) -> None:
        """End a step and begin the next."""
        if self.stopped:
            warn("Profiler is stopped, step takes no effect!")
            return
        self._end_step()
        before = self.current_action
        self.step_num += 1
        self.current_action = self.schedule(self.step_num)
        self.action_controller.transit(before, self.current_action)
        self._begin_step()

    @never_raises
    def stop(self) -> None:
        """End; a recording under way is completed."""
        if self.stopped:
            return
        self._end_step()
        self.action_controller.transit(self.current_action, None)
        self.stopped = True
        if self.execution_trace_observer is not None:
            self.execution_trace_observer.stop()

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Name the next recordings with what this returns."""
        self.prof_if.custom_trace_id_callback = callback

    def get_trace_id(self) -> str:
        """Return the name of the recording."""
        return self.prof_if.trace_id

    @classmethod
    def enable_profiler_in_child_thread(
        cls,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
    ) -> None:
        """Check the arguments: operators of every thread are recorded as it is, host calls of this one are not."""
        given = {"record_shapes": record_shapes, "profile_memory": profile_memory, "with_stack": with_stack}
        for name, value in (given | {"with_flops": with_flops, "with_modules": with_modules}).items():
            warned_bool(f"{name} in enable_profiler_in_child_thread", value)

    @classmethod
    def disable_profiler_in_child_thread(cls) -> None:
        """Do nothing: see `enable_profiler_in_child_thread`."""

    def _set_step_num_offset_for_dynamic_prof(self, step: int) -> None:
        self._offset = step

    def _begin_step(self) -> None:
        if not self.record_steps:
            return
        number = str(self.step_num + self._offset)
        self.prof_if.step(number)
        self._range = torch.autograd.profiler.record_function(f"ProfilerStep#{number}")
        self._range.__enter__()
        self._mark = mstx.range_start(f"ProfilerStep#{number}")

    def _end_step(self) -> None:
        if self._range is None:
            return
        self._range.__exit__(None, None, None)
        self._range = None
        mstx.range_end(self._mark)


def _callable(name: str, given: Any) -> Any:
    if given is None or callable(given):
        return given
    warn(f"{name} is not Callable, set by default.")
    return None


def tensorboard_trace_handler(
    dir_name: str | None = None, worker_name: str | None = None, analyse_flag: bool = True, async_mode: bool = False
) -> Callable[[Any], None]:
    """Return a handler for `on_trace_ready` that writes the files into `dir_name`, the working folder by default."""
    CREATOR.configure(worker_name, dir_name)
    writes = warned_bool("analyse_flag", analyse_flag, instead=True)
    in_thread = warned_bool("async_mode", async_mode)

    def handler(prof: Any) -> None:
        if writes:
            prof.prof_if.analyse(async_mode=in_thread)

    return handler


@never_raises
def analyse(
    profiler_path: str, max_process_number: int = os.cpu_count() or 1, export_type: str | list[str] | None = None
) -> None:
    """Write the files of every recording below `profiler_path` from its raw data."""
    if not isinstance(max_process_number, int) or max_process_number <= 0:
        warn("Invalid max_process_number, reset it to default!")
    if export_type is not None:
        wanted = [export_type] if isinstance(export_type, str) else export_type
        if not isinstance(wanted, list) or not wanted or not set(wanted) <= {ExportType.Text, ExportType.Db}:
            warn(f"Invalid parameter export_type: {export_type}, reset it to None.")
        elif ExportType.Text not in wanted:
            warn("The emulated NPU writes text files only, not .db files; it writes text.")
    root = Path(profiler_path).resolve()
    found = [root, *sorted(root.glob("*_ascend_pt"))] if root.is_dir() else []
    folders = [folder for folder in found if (folder / FRAMEWORK).is_dir()]
    if not folders:
        warn(f"Invalid profiling path: {profiler_path} holds no recording of the emulated NPU.")
    for folder in folders:
        write_text(folder, Profile.load(folder / FRAMEWORK))
