"""`torch_npu.profiler.dynamic_profile`: start a profile from a file that changes while the program runs.

    dp.init(folder)             # writes a template profiler_config.json there
    for ...:
        train_one_step()
        dp.step()               # reads the file when it has changed

The file is looked at in `step` itself; the vendor polls it from another process every few seconds.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jumar.npu.profiler.experimental_config import AiCMetrics, ProfilerLevel, _ExperimentalConfig
from jumar.npu.profiler.messages import never_raises, warn
from jumar.npu.profiler.profiler import profile, tensorboard_trace_handler
from jumar.npu.profiler.profiler_interface import ProfilerActivity
from jumar.npu.profiler.scheduler import Schedule

__all__ = ["init", "set_state", "start", "step"]

FILE = "profiler_config.json"
_AT_ONCE = -1

TEMPLATE: dict[str, Any] = {
    "activities": ["CPU", "NPU"],
    "prof_dir": "./",
    "analyse": False,
    "async_mode": False,
    "record_shapes": False,
    "profile_memory": False,
    "with_stack": False,
    "with_flops": False,
    "with_modules": False,
    "active": 1,
    "warmup": 0,
    "start_step": 0,
    "is_rank": False,
    "rank_list": [],
    "experimental_config": {
        "profiler_level": "Level0",
        "aic_metrics": "AiCoreNone",
        "l2_cache": False,
        "op_attr": False,
        "gc_detect_threshold": None,
        "data_simplification": True,
        "record_op_args": False,
        "export_type": ["text"],
        "mstx": False,
        "mstx_domain_include": [],
        "mstx_domain_exclude": [],
        "host_sys": [],
        "sys_io": False,
        "sys_interconnection": False,
    },
}
"""What the vendor's `init` writes; the default `start_step` 0 collects nothing."""


FLAGS = ("record_shapes", "profile_memory", "with_stack", "with_flops", "with_modules")
"""Options of `profile` that are on or off."""


@dataclass(slots=True)
class _State:
    file: Path | None = None
    changed_ns: int = 0
    current_step: int = 0
    waiting: dict[str, Any] | None = None
    running: profile | None = None
    steps_left: int = 0


_STATE = _State()


@never_raises
def init(path: str) -> None:
    """Watch `profiler_config.json` in the folder `path`, and write a template where there is none."""
    if _STATE.file is not None:
        warn("Init dynamic profiling repeatedly")
        return
    folder = Path(path)
    if not folder.is_dir():
        warn(f"The path '{path}' is invalid, and profiler will not be enabled.")
        return
    _STATE.file = folder.resolve() / FILE
    if not _STATE.file.exists():
        _STATE.file.write_text(json.dumps(TEMPLATE, indent=4), encoding="utf-8")
    _STATE.changed_ns = _STATE.file.stat().st_mtime_ns


@never_raises
def step() -> None:
    """End a step: go on with a running profile, or begin one that is due."""
    _STATE.current_step += 1
    if _STATE.running is not None:
        _continue(_STATE.running)
        return
    changed = _changed_config()
    if changed is not None:
        _STATE.waiting = changed
    config = _STATE.waiting
    if config is None:
        return
    begin = _number(config, "start_step", 0)
    if begin not in (_AT_ONCE, _STATE.current_step):
        if begin < _STATE.current_step:
            _STATE.waiting = None
            warn(
                f"Dynamic Profiler config is not effective. The start_step={begin}, current_step={_STATE.current_step}"
            )
        return
    _begin(config)


@never_raises
def start(config_path: str | None = None) -> None:
    """Begin a profile now, as the file `config_path` says, or the one that `init` watches."""
    if _STATE.running is not None:
        warn("Profiler already started. Cannot call start interface while the profiler is active.")
        return
    file = Path(config_path) if config_path and Path(config_path).is_file() else _STATE.file
    if config_path and file is not None and file != Path(config_path):
        warn(f"The provided config_path is invalid: {config_path}.")
    if file is None or not file.is_file():
        warn("dynamic_profile.start has no configuration: give the path of a profiler_config.json, or call init first.")
        return
    _begin(_read(file))


@never_raises
def set_state(state_step: dict[str, Any]) -> None:
    """Go on counting from `{"cur_step": N}`, for a program that resumes."""
    given: Any = state_step
    number = given.get("cur_step", 0) if isinstance(given, dict) else None
    if not isinstance(number, int) or number < 0:
        warn("Dynamic profiler state_step must be a dict whose cur_step is a non-negative integer.")
        return
    _STATE.current_step = number


def _continue(running: profile) -> None:
    running.step()
    _STATE.steps_left -= 1
    if _STATE.steps_left == 0:
        running.stop()
        _STATE.running = None


def _changed_config() -> dict[str, Any] | None:
    file = _STATE.file
    if file is None or not file.is_file():
        return None
    changed_ns = file.stat().st_mtime_ns
    if changed_ns == _STATE.changed_ns:
        return None
    _STATE.changed_ns = changed_ns
    return _read(file)


def _read(file: Path) -> dict[str, Any]:
    found = json.loads(file.read_text(encoding="utf-8"))
    return found if isinstance(found, dict) else {}


def _number(config: dict[str, Any], name: str, instead: int) -> int:
    value = config.get(name, instead)
    return value if isinstance(value, int) else instead


def _begin(config: dict[str, Any]) -> None:
    _STATE.waiting = None
    if config.get("is_rank") and int(os.environ.get("RANK", "0")) not in config.get("rank_list", []):
        return
    warmup, active = _number(config, "warmup", 0), max(1, _number(config, "active", 1))
    names = config.get("activities") or ["CPU", "NPU"]
    flags: dict[str, Any] = {name: bool(config.get(name)) for name in FLAGS}
    running = profile(
        activities=[ProfilerActivity[name] for name in names if name in ProfilerActivity.__members__],
        schedule=Schedule(wait=0, warmup=warmup, active=active, repeat=1),
        on_trace_ready=tensorboard_trace_handler(
            str(config.get("prof_dir", "./")),
            analyse_flag=bool(config.get("analyse", False)),
            async_mode=bool(config.get("async_mode", False)),
        ),
        experimental_config=_experimental(config.get("experimental_config") or {}),
        **flags,
    )
    running._set_step_num_offset_for_dynamic_prof(_STATE.current_step)
    _STATE.running, _STATE.steps_left = running, warmup + active
    running.start()
    for key, value in (config.get("metadata") or {}).items():
        running.add_metadata_json(str(key), json.dumps(value))


def _experimental(options: dict[str, Any]) -> _ExperimentalConfig:
    known = {key: value for key, value in options.items() if key in TEMPLATE["experimental_config"]}
    metrics = getattr(AiCMetrics, str(known.pop("aic_metrics", "")), AiCMetrics.AiCoreNone)
    level = getattr(ProfilerLevel, str(known.pop("profiler_level", "")), ProfilerLevel.Level0)
    return _ExperimentalConfig(profiler_level=level, aic_metrics=metrics, **known)
