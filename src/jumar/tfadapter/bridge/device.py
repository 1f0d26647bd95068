"""`npu_device`, the adapter of TensorFlow 2, on the CPU."""

from __future__ import annotations

import functools
from typing import Any

import tensorflow as tf

from jumar.tfadapter.bridge.dump import Call, Dumper
from jumar.tfadapter.bridge.operators import ONE_PROCESS
from jumar.tfadapter.bridge.optimizers import ONE_RANK
from jumar.tfadapter.bridge.rounding import MATRIX, EagerRounding, rounding_of
from jumar.tfadapter.bridge.state import STATE
from jumar.tfadapter.bridge.watch import dumper_of, optimizer_methods
from jumar.tfadapter.options import Setting, options_of


class Options:
    """`global_options()`, and its parts `aoe_config`, `dump_config` and others. A wrong name or value is refused."""

    def __init__(self, prefix: str = "") -> None:
        self.__dict__["_prefix"] = prefix
        self.__dict__["_set"] = {}
        parts = {
            name[len(prefix) :].split(".")[0]
            for name in options_of("npu_device")
            if name.startswith(prefix) and "." in name[len(prefix) :]
        }
        for part in parts:
            self.__dict__[part] = Options(f"{prefix}{part}.")

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Options):
            self.__dict__[name] = value
            return
        self._set[name] = value
        STATE.take([one for one in self.settings() if one.name == f"{self._prefix}{name}"], are_all=False)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        known = options_of("npu_device").get(f"{self.__dict__['_prefix']}{name}")
        if name in self.__dict__["_set"]:
            return self.__dict__["_set"][name]
        if known is None:
            raise AttributeError(f"npu_device.global_options() has no option {self.__dict__['_prefix']}{name}.")
        return known.default or None

    def settings(self) -> list[Setting]:
        """Return what was set, here and in the parts."""
        found = [
            Setting("npu_device", f"{self._prefix}{name}", value, group="npu_device")
            for name, value in self._set.items()
        ]
        for part in self.__dict__.values():
            if isinstance(part, Options):
                found += part.settings()
        return found


_GLOBAL = Options()


def global_options() -> Options:
    """Return the options of the process."""
    return _GLOBAL


class NpuDevice:
    """A device that was opened: the CPU."""

    def __init__(self, number: int) -> None:
        self.device_id = number

    def name(self) -> str:
        """Return the name of TensorFlow's device."""
        return "/job:localhost/replica:0/task:0/device:CPU:0"

    def as_default(self) -> NpuDevice:
        """Return the device: all operators run on the CPU anyway."""
        return self

    def __enter__(self) -> NpuDevice:
        return self

    def __exit__(self, *_: object) -> None:
        return None


DUMPERS: list[Dumper] = []
"""Those of this process; `jumar run` tells of them."""
ROUNDINGS: list[EagerRounding] = []
"""That of this process, where a precision mode asks for one."""


def open(device_id: int | None = None) -> NpuDevice:
    """Check all options together, and return the device."""
    STATE.take(_GLOBAL.settings())
    given = {one.name: one.value for one in _GLOBAL.settings()}
    rounding = rounding_of(given)
    if rounding is not None and not ROUNDINGS:
        ROUNDINGS.append(EagerRounding(rounding))
        ROUNDINGS[0].start()
    dumper = dumper_of(given)
    if dumper is not None and not DUMPERS:
        DUMPERS.append(dumper)
        _watch_operators(dumper)
    return NpuDevice(device_id or 0)


def _watch_operators(dumper: Dumper) -> None:
    """Give the operators that run from now on to a dumper. Functions run eagerly, so that theirs are seen."""
    from tensorflow.python.framework import op_callbacks

    tf.config.run_functions_eagerly(True)
    STATE.not_shown["graphs of tf.function: they run eagerly while a dump is on"] = None
    calls: list[Call] = []

    def note(op_type: Any, inputs: Any, attrs: Any, outputs: Any, op_name: Any = None, graph: Any = None) -> None:
        del attrs, graph
        if any(one.is_rounding for one in ROUNDINGS):
            return
        kind = op_type.decode() if isinstance(op_type, bytes) else str(op_type)
        numbers = [_array(one) for one in inputs], [_array(one) for one in outputs]
        for one in ROUNDINGS if kind in MATRIX else ():
            numbers = one.rounding.narrowed(*numbers)
        calls.append(Call(kind, str(op_name or f"{kind}_{len(calls)}"), *numbers))

    op_callbacks.add_op_callback(note)
    _end_steps(dumper, calls)


def _end_steps(dumper: Dumper, calls: list[Call]) -> None:
    """Write the calls of a step when its optimizer has applied the gradients."""
    for kind, name in optimizer_methods():
        setattr(kind, name, _ending(getattr(kind, name), dumper, calls))


def _ending(original: Any, dumper: Dumper, calls: list[Call]) -> Any:
    @functools.wraps(original)
    def applied(*arguments: Any, **named: Any) -> Any:
        answer = original(*arguments, **named)
        taken = calls.copy()
        calls.clear()
        dumper.step(taken)
        return answer

    return applied


def _array(tensor: Any) -> Any:
    """Return the numbers of a tensor; None for what has none."""
    try:
        return tensor.numpy() if tensor.dtype.is_floating else None
    except (AttributeError, NotImplementedError, TypeError):
        return None


def set_npu_loop_size(loop_size: int) -> None:
    """Note the steps of a loop: they have no effect here."""
    if loop_size < 1:
        raise ValueError(f"loop_size must be at least 1; got {loop_size}.")
    STATE.no_effect[f"set_npu_loop_size({loop_size})"] = None


class npu_run_context:
    """Options for the functions in a `with` block."""

    def __init__(self, options: Any = None) -> None:
        if isinstance(options, Options):
            STATE.take(options.settings())

    def __enter__(self) -> npu_run_context:
        return self

    def __exit__(self, *_: object) -> None:
        return None


def all_reduce(values: Any, reduction: str = "mean", *_: Any, **__: Any) -> Any:
    """Return the values: those of one process."""
    if reduction not in ("mean", "sum"):
        raise ValueError(f"reduction must be mean or sum; got {reduction!r}.")
    STATE.not_shown[ONE_PROCESS] = None
    return values


def broadcast(values: Any, root_rank: int = 0, *_: Any, **__: Any) -> None:
    """Do nothing: there are no other processes."""
    del values, root_rank
    STATE.not_shown[ONE_PROCESS] = None


def npu_distributed_keras_optimizer_wrapper(optimizer: Any, reduction: str = "mean", *_: Any, **__: Any) -> Any:
    """Return the optimizer."""
    del reduction
    STATE.not_shown[ONE_RANK] = None
    return optimizer


def shard_and_rebatch_dataset(dataset: Any, global_batch_size: int) -> tuple[Any, int]:
    """Return the data set and the batch size of one process."""
    return dataset, global_batch_size


def enable_v1() -> None:
    """Turn TensorFlow 2's behaviour off."""
    tf.compat.v1.disable_v2_behavior()


def gelu(x: Any, *_: Any, **__: Any) -> Any:
    """Return GELU by the approximation with tanh."""
    return tf.nn.gelu(x, approximate=True)


def npu_loss_scale_optimizer(
    optimizer: Any, dynamic: bool = True, initial_scale: Any = None, *_: Any, **__: Any
) -> Any:
    """Return Keras' optimizer with loss scale."""
    kind = tf.keras.mixed_precision.LossScaleOptimizer
    if hasattr(tf.keras, "__version__") or not hasattr(kind, "get_scaled_loss"):
        return kind(optimizer)
    return kind(optimizer, dynamic=dynamic, initial_scale=initial_scale)
