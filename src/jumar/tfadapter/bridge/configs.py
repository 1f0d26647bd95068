"""`NPURunConfig`, `DumpConfig` and the like: what an Estimator's program says of the NPU, checked.

Parameters and their order are those of the documents on overflow collection and of the public pages that
jumar docs tensorflow-options names.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from jumar.tfadapter.bridge.state import STATE
from jumar.tfadapter.options import Setting, Style, options_of


class _Arguments:
    """A class that holds its arguments as attributes, checked against the table."""

    _style: Style
    _order: tuple[str, ...] = ()

    def __init__(self, *arguments: Any, **named: Any) -> None:
        given = dict(zip(self._order, arguments, strict=False)) | named
        STATE.take([Setting(self._style, name, value, group=f"{id(self)}") for name, value in given.items()])
        for name in options_of(self._style):
            setattr(self, name.lower() if name == "HCCL_algorithm" else name, given.get(name))
        self.given: dict[str, Any] = given


class DumpConfig(_Arguments):
    """What is dumped, and whether overflow is looked for."""

    _style = "dump_config"
    _order = (
        "enable_dump", "dump_path", "dump_step", "dump_mode", "enable_dump_debug", "dump_debug_mode", "dump_data",
        "dump_layer",
    )  # fmt: skip


class ProfilingConfig(_Arguments):
    """Whether the run is profiled on the device."""

    _style = "profiling_config"
    _order = ("enable_profiling", "profiling_options")


class MemoryConfig(_Arguments):
    """How the device's memory is taken."""

    _style = "memory_config"
    _order = ("atomic_clean_policy", "static_memory_policy")


class ExperimentalConfig:
    """Options that the vendor may take away again. They have no effect here."""

    def __init__(self, **named: Any) -> None:
        for name, value in named.items():
            STATE.no_effect[f"ExperimentalConfig({name}={value!r})"] = None
            setattr(self, name, value)


class DynamicInputConfig(ExperimentalConfig):
    """Gears of dynamic shapes. They have no effect here: TensorFlow takes any shape."""


_FOR_TENSORFLOW = (
    "model_dir", "tf_random_seed", "save_summary_steps", "save_checkpoints_steps", "save_checkpoints_secs",
    "session_config", "keep_checkpoint_max", "keep_checkpoint_every_n_hours", "log_step_count_steps",
    "train_distribute", "device_fn", "protocol", "eval_distribute", "experimental_distribute",
    "experimental_max_worker_delay_secs", "session_creation_timeout_secs", "checkpoint_save_graph_def",
)  # fmt: skip
_OF_SESSIONS = ("precision_mode", "precision_mode_v2")
"""Options that do something when a session runs."""
_FIRST = ("iterations_per_loop", "profiling_config", "model_dir")


def _run_config() -> type:
    """Return NPURunConfig; made when it is first asked for, because TensorFlow 2.16 and later have no Estimator."""

    class NPURunConfig(tf.estimator.RunConfig):  # type: ignore[misc]
        """TensorFlow's RunConfig with the options of the NPU."""

        def __init__(self, *arguments: Any, **named: Any) -> None:
            given = dict(zip(_FIRST, arguments, strict=False)) | named
            STATE.take([Setting("estimator", name, value, group="run") for name, value in given.items()])
            known = {name: value for name, value in given.items() if name in _FOR_TENSORFLOW and value is not None}
            dump = given.get("dump_config")
            asked = {name: given[name] for name in _OF_SESSIONS if given.get(name) is not None}
            if dump is not None:
                asked |= {name: value for name, value in dump.given.items() if value is not None}
            if asked:
                known["session_config"] = with_options(known.get("session_config"), asked)
            super().__init__(**known)
            self.npu_options = {name: value for name, value in given.items() if name not in _FOR_TENSORFLOW}

    return NPURunConfig


def with_options(config: Any, options: Mapping[str, Any]) -> Any:
    """Return a ConfigProto whose NpuOptimizer has these options, too."""
    made = tf.compat.v1.ConfigProto()
    if config is not None:
        made.CopyFrom(config)
    for name, value in options.items():
        entry = optimizer_of(made).parameter_map[name]
        if isinstance(value, bool):
            entry.b = value
        else:
            entry.s = tf.compat.as_bytes(str(value))
    return made


def optimizer_of(config: Any) -> Any:
    """Return the NpuOptimizer of a ConfigProto; made where there is none."""
    options = config.graph_options.rewrite_options
    for known in options.custom_optimizers:
        if known.name == "NpuOptimizer":
            return known
    added = options.custom_optimizers.add()
    added.name = "NpuOptimizer"
    return added


def npu_config_proto(config_proto: Any = None, *_: Any) -> Any:
    """Return a ConfigProto for the NPU: with NpuOptimizer, and without two rewrites of TensorFlow's."""
    from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

    made = tf.compat.v1.ConfigProto()
    if config_proto is not None:
        made.CopyFrom(config_proto)
    optimizer_of(made).parameter_map["use_off_line"].b = True
    made.graph_options.rewrite_options.remapping = RewriterConfig.OFF
    made.graph_options.rewrite_options.memory_optimization = RewriterConfig.OFF
    return made


def npu_run_config_init(run_config: Any = None) -> Any:
    """Return a run configuration for the NPU."""
    config = globals()["NPURunConfig"]() if run_config is None else run_config
    if config.session_config is None:
        config = config.replace(session_config=npu_config_proto())
    return config


def __getattr__(name: str) -> Any:
    if name == "NPURunConfig":
        made = globals()["NPURunConfig"] = _run_config()
        return made
    raise AttributeError(name)
