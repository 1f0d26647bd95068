"""`torch_npu.utils.profiler`: profile one step of a loop, and end the program after it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from jumar.npu import profiler

__all__ = ["Profile", "Singleton"]

_KINDS = ("TORCH", "ASCEND_PROFILER")
_TORCH = frozenset({"record_shapes", "with_flops", "profile_memory", "with_stack"})
_ASCEND = frozenset({"activities", "schedule", "record_shapes", "profile_memory", "with_stack"})
"""Further keywords that each kind of profile takes here."""


def Singleton(cls: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a class so that every call gives the one object that the first call made."""
    made: list[Any] = []

    def one(*args: Any, **kwargs: Any) -> Any:
        if not made:
            made.append(cls(*args, **kwargs))
        return made[0]

    return one


class _Profile:
    def __init__(
        self,
        start_step: int = 10,
        save_path: str = "./npu_profiling",
        profile_type: str | None = None,
        use_npu: bool = True,
        record_shape: bool = True,
        experimental_config: Any = None,
        **kwargs: Any,
    ) -> None:
        self.start_step, self.save_path, self.profile_type = start_step, save_path, profile_type
        self.use_npu, self.enable = use_npu, profile_type in _KINDS
        self.step_count, self._is_started = 0, False
        if self.enable:
            self.prof = self._profiler(record_shape, experimental_config, kwargs)
            Path(save_path).mkdir(parents=True, exist_ok=True)

    def _profiler(self, record_shape: bool, experimental_config: Any, keywords: dict[str, Any]) -> Any:
        allowed = _TORCH if self.profile_type == "TORCH" else _ASCEND
        if not set(keywords) <= allowed:
            raise ValueError(f"Args '{sorted(set(keywords) - allowed)}' invalid, expect args '{sorted(allowed)}'.")
        if self.profile_type == "TORCH":
            return torch.profiler.profile(**keywords)
        config = experimental_config or profiler._ExperimentalConfig(profiler_level=profiler.ProfilerLevel.Level2)
        handler = profiler.tensorboard_trace_handler(self.save_path)
        shapes = {"record_shapes": record_shape}
        return profiler.profile(on_trace_ready=handler, experimental_config=config, **(shapes | keywords))

    def start(self) -> None:
        """Begin a step. Raises RuntimeError for a second call before `end`."""
        if self._is_started:
            raise RuntimeError("start interface can only be called once")
        self._is_started = True
        if self.enable:
            self.step_count += 1
            if self.step_count == self.start_step:
                self.prof.__enter__()

    def end(self) -> None:
        """End a step; after the one that was profiled, write the profile and end the program.

        Raises RuntimeError without `start`.
        """
        if not self._is_started:
            raise RuntimeError("start interface must be called before end")
        self._is_started = False
        if self.enable and self.step_count == self.start_step:
            self.prof.__exit__(None, None, None)
            if self.profile_type == "TORCH":
                name = f"torch_prof_{time.strftime('%Y%m%d%H%M%S')}.json"
                self.prof.export_chrome_trace(str(Path(self.save_path) / name))
            sys.exit()


Profile = Singleton(_Profile)
