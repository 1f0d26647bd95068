"""`Contexts`: what a MindSpore program asks of its context, checked and carried out without an NPU.

`device_target="Ascend"` runs on the CPU under the real MindSpore. MindSpore itself checks the values of options; names
that it does not know are refused with the nearest one. What has no effect here is listed once.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

from jumar.base.text import listing
from jumar.capture.notes.patches import Patches

ASCEND = "Ascend"
_TARGETS = ("Ascend", "CPU", "GPU")
_DEVICE_ONLY = frozenset({
    "device_id", "ascend_config", "enable_graph_kernel", "graph_kernel_flags", "max_device_memory",
    "variable_memory_max_size", "mempool_block_size", "aoe_tune_mode", "aoe_config", "op_timeout", "print_file_path",
    "enable_reduce_precision", "memory_optimize_level", "jit_config", "exec_order", "pynative_synchronize",
})  # fmt: skip
"""Options of `set_context` that change nothing on the CPU."""
_SINGLE = {"device_num": 1, "global_rank": 0, "parallel_mode": "stand_alone", "gradients_mean": False}
"""The auto-parallel context of one process."""


class Contexts:
    """Wraps MindSpore's functions that set a context, for one program.

    With `emulates` a program that asks for Ascend gets it, with the numerics of `jumar.capture.frameworks.mindspore.
    rounding`; else it gets the CPU as it is. Graph mode is run as PyNative mode: what is compiled cannot
    be watched, nor its operators rounded.
    """

    def __init__(self, *, emulates: bool) -> None:
        self.emulates = emulates
        self._patches = Patches()
        self._no_effect: dict[str, None] = {}
        self._was_graph = False
        self._fuses = False
        self._caches = os.environ.get("MS_COMPILER_CACHE_ENABLE") == "1"
        self._is_distributed = False
        self._device_id = 0
        self._fusion: list[int] = []
        self._parallel: dict[str, Any] = {}
        self._num_trained = 0
        self.target = ""
        """What the program asked for; empty before it did."""

    @property
    def is_ascend(self) -> bool:
        """Whether the program runs as on an Ascend chip."""
        return self.emulates and self.target == ASCEND

    def settings(self) -> dict[str, Any]:
        """Return what the program set that decides how fast it is, for recordings."""
        mode = "Graph" if self._was_graph else "PyNative"
        return {"mode_asked": mode, "graph_kernel": self._fuses, "compile_cache": self._caches}

    @property
    def device(self) -> str:
        """The device, for recordings."""
        return "npu (emulated)" if self.is_ascend else "cpu"

    def start(self) -> None:
        """Begin. MindSpore is imported here."""
        os.environ["MS_JIT"] = "0"  # read at each call of a function under @jit
        import mindspore
        from mindspore import communication, context, device_manager
        from mindspore.communication import management

        self._setters(context)
        wrapped: list[tuple[Any, str, Callable[..., Any]]] = [
            (context, "set_context", self._set_context),
            (context, "get_context", self._get_context),
            (context, "set_auto_parallel_context", self._set_auto_parallel),
            (context, "get_auto_parallel_context", self._get_auto_parallel),
            (device_manager, "set_device", self._set_device),
            (device_manager, "get_current_device", self._get_current_device),
            (management, "init", self._init),
            *((management, name, self._rank_of) for name in ("get_rank", "get_local_rank")),
            *((management, name, self._size_of) for name in ("get_group_size", "get_local_rank_size")),
        ]
        for owner, name, wrapper in wrapped:
            original = getattr(owner, name)
            replacement = functools.wraps(original)(functools.partial(wrapper, original))
            for holder in (owner, mindspore, communication):  # each has imported it under its name
                if holder.__dict__.get(name) is original:
                    self._patches.replace(holder, name, replacement)
        self._allow_loss_scale()

    def stop(self) -> None:
        """Put MindSpore's own functions back."""
        self._patches.restore()

    def sentences(self) -> list[str]:
        """Return what a program asked for and did not get, one sentence each."""
        found = []
        if self._was_graph:
            found.append(
                "graph mode: the program ran in PyNative mode instead (@jit functions too), so nothing is seen of "
                "fusion and graph rewriting; dump a graph with MINDSPORE_DUMP_CONFIG to compare it"
            )
        if self._is_distributed:
            found.append("collectives: the program ran as one rank of one, so nothing is seen of communication")
        return found

    def no_effect(self) -> list[str]:
        """Return the options that had no effect, as a program wrote them."""
        return list(self._no_effect)

    def fusion_advice(self) -> str:
        """Return a sentence where `all_reduce_fusion_config` does not fit the model; empty where it does."""
        if not self._fusion or not self._num_trained or self._fusion[-1] < self._num_trained:
            return ""
        return (
            f"all_reduce_fusion_config={self._fusion} ends at {self._fusion[-1]}, and the optimizer has "
            f"{self._num_trained} parameters, counted from 0: end it at {self._num_trained - 1}"
        )

    def count_parameters(self, number: int) -> None:
        """Take in how many parameters an optimizer trains."""
        self._num_trained = max(self._num_trained, number)

    def _setters(self, context: Any) -> None:
        """Wrap what sets mode and target wherever that is called."""
        kind = context._Context
        set_mode, set_target = kind.set_mode, kind.set_device_target

        def mode(one: Any, value: Any) -> None:
            if value == context.GRAPH_MODE:
                self._was_graph, value = True, context.PYNATIVE_MODE
            set_mode(one, value)

        def target(one: Any, value: Any) -> None:
            self._check_target(value)
            self.target = ASCEND if value == "Davinci" else value
            set_target(one, "CPU")

        self._patches.replace(kind, "set_mode", mode)
        self._patches.replace(kind, "set_device_target", target)
        self._patches.replace(kind, "setters", {**kind.setters, "mode": mode, "device_target": target})

    def _check_target(self, value: Any) -> None:
        if value not in (*_TARGETS, "Davinci"):
            near = _nearest(str(value), _TARGETS)
            raise ValueError(f"device_target must be one of {', '.join(_TARGETS)}; got {value!r}.{near}")

    def _set_context(self, original: Callable[..., Any], **options: Any) -> None:
        known = _options_of(original)
        self._check_names("set_context", options, known)
        original(**options)
        jit_level = (options.get("jit_config") or {}).get("jit_level")
        self._fuses = bool(options.get("enable_graph_kernel", self._fuses)) or jit_level in {"O1", "O2"}
        self._caches = bool(options.get("enable_compile_cache", self._caches))
        asked = self.target or "CPU"
        if asked == "CPU":
            return
        import mindspore

        context = mindspore.context._context()
        for name, value in options.items():
            if name in _DEVICE_ONLY:
                self._no_effect[f"{name}={value!r}"] = None
                setter = context.setters.get(name) if name == "ascend_config" else None
                if setter is not None:  # on the CPU MindSpore does not look at it
                    setter(context, value)
        self._device_id = int(options.get("device_id", self._device_id))

    def _get_context(self, original: Callable[..., Any], attr_key: str) -> Any:
        if attr_key == "device_target" and self.target and _asks(sys._getframe(1)):
            return self.target
        if attr_key == "device_id" and self.target:
            return self._device_id
        return original(attr_key)

    def _set_device(self, original: Callable[..., Any], device_target: str, device_id: int | None = None) -> None:
        self._check_target(device_target)
        if device_id is not None and device_id < 0:
            raise ValueError(f"device_id must be 0 or more; got {device_id}.")
        self.target, self._device_id = device_target, device_id or 0
        original("CPU", 0)

    def _get_current_device(self, original: Callable[..., Any]) -> Any:
        found = original()
        return type(found)(self.target, self._device_id) if self.target else found

    def _set_auto_parallel(self, original: Callable[..., Any], **options: Any) -> None:
        self._check_names("set_auto_parallel_context", options, _options_of(original))
        self._check_fusion(options.get("all_reduce_fusion_config"))
        original(**options)
        self._parallel |= options
        if _is_cluster():
            return
        for name, value in options.items():
            if name not in _SINGLE or value != _SINGLE[name]:
                self._no_effect[f"set_auto_parallel_context({name}={value!r})"] = None
        original(**{name: value for name, value in _SINGLE.items() if name in options})

    def _check_fusion(self, config: Any) -> None:
        if config is None:
            return
        if any(not isinstance(item, int) or isinstance(item, bool) or item < 0 for item in config) or any(
            one >= other for one, other in pairwise(config)
        ):
            raise ValueError(
                f"all_reduce_fusion_config must be growing numbers of parameters, counted from 0; got {config}. "
                "Try [85, 160]: parameters 0 to 85 are one bucket, 86 to 160 the other."
            )
        self._fusion = list(config)

    def _get_auto_parallel(self, original: Callable[..., Any], attr_key: str) -> Any:
        return self._parallel.get(attr_key, original(attr_key)) if _asks(sys._getframe(1)) else original(attr_key)

    def _init(self, original: Callable[..., Any], backend_name: str | None = None) -> None:
        backends = ("hccl", "nccl", "mccl")
        if backend_name is not None and backend_name not in backends:
            near = _nearest(str(backend_name), backends)
            raise RuntimeError(f"backend_name must be one of {', '.join(backends)}; got {backend_name!r}.{near}")
        if _is_cluster():
            original("mccl")
            return
        self._is_distributed = True
        self._no_effect[f"init({backend_name!r})" if backend_name else "init()"] = None

    def _rank_of(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
        return int(original(*args, **kwargs)) if _is_cluster() or not self._is_distributed else 0

    def _size_of(self, original: Callable[..., Any], *args: Any, **kwargs: Any) -> int:
        return int(original(*args, **kwargs)) if _is_cluster() or not self._is_distributed else 1

    def _check_names(self, function: str, options: Iterable[str], known: Iterable[str]) -> None:
        for name in options:
            if name not in known:
                near = _nearest(name, known)
                raise ValueError(f"{function} has no option {name!r}.{near or ' See the documentation of MindSpore.'}")

    def _allow_loss_scale(self) -> None:
        """Let loss-scale cells run: the status register they read on a chip is told by the gradients here."""
        from mindspore.nn.wrap import loss_scale

        cell = loss_scale.TrainOneStepWithLossScaleCell

        def overflow(one: Any, _: Any, gradients: Any) -> Any:
            return one._get_distributed_overflow_status_on_infnan_mode(loss_scale._ascend_grad_overflow, gradients)

        self._patches.replace(cell, "_get_ascend_overflow_status_on_saturation_mode", overflow)


def _asks(frame: Any) -> bool:
    """Tell whether a call comes from the program, or from the one place of MindSpore that must not see the CPU:
    `build_train_network` refuses a dynamic loss scale there."""
    name = str(frame.f_globals.get("__name__", ""))
    return not name.startswith("mindspore.") or frame.f_code.co_name == "build_train_network"


def _is_cluster() -> bool:
    """Tell whether a launcher of MindSpore (`msrun`, `mpirun`) started this process."""
    return any(name in os.environ for name in ("MS_ROLE", "MS_WORKER_NUM", "OMPI_COMM_WORLD_SIZE"))


def _options_of(function: Any) -> frozenset[str]:
    """Return the names of the options that a function of MindSpore's context takes.

    They stand in the closure of the check of types around it, and in the setters and enumeration it looks in.
    """
    import mindspore
    from mindspore._c_expression import ms_ctx_param

    names: set[str] = set()
    for one in (function, getattr(function, "__wrapped__", None)):
        for cell in getattr(one, "__closure__", None) or ():
            held = cell.cell_contents
            names |= set(held) if isinstance(held, dict) else set()
    if function.__name__ == "set_context":
        names |= {name for name in ms_ctx_param.__members__ if not name.startswith("_")}
        names |= set(mindspore.context._Context.setters)
        names |= {"enable_sparse", "auto_tune_mode", "compile_cache_path", "save_graphs", "exec_order"}
    else:
        text = inspect.getdoc(function) or ""
        names |= set(re.findall(r"^\s*(\w+) \(", text, re.MULTILINE))
    return frozenset(names)


def _nearest(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean …?" for the nearest known name; empty where none is near."""
    by_lower = {one.lower(): one for one in known}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1, cutoff=0.6)
    return f" Did you mean {by_lower[near[0]]}?" if near else ""


def tell_no_effect(contexts: Contexts) -> list[str]:
    """Return the lines that are printed once at the end of a run, without NPU, of a program for Ascend."""
    if contexts.target != ASCEND:
        return []
    lines = [
        "device_target='Ascend' ran on the CPU under MindSpore itself: the chip's own rounding, fusion, HCCL and "
        "mindspore.mint kernels are not shown by this run"
    ]
    ignored = contexts.no_effect()
    if ignored:
        lines.append(f"without effect here: {listing(ignored, 12)}")
    return [*lines, *filter(None, (contexts.fusion_advice(),))]
