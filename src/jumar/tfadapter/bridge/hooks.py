"""Hooks, set-up and clean-up of the adapter on one process, and the Estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from jumar.tfadapter.bridge.configs import npu_config_proto
from jumar.tfadapter.bridge.optimizers import ONE_RANK
from jumar.tfadapter.bridge.state import STATE

v1 = tf.compat.v1
_Hook: Any = v1.train.SessionRunHook
_Saver: Any = v1.train.CheckpointSaverHook
_Logging: Any = v1.train.LoggingTensorHook
_Callback: Any = tf.keras.callbacks.Callback


class NPUBroadcastGlobalVariablesHook(_Hook):  # type: ignore[misc]
    """Sends variables to the other processes: there are none."""

    def __init__(self, root_rank: int = 0, index: int = 0) -> None:
        del root_rank, index
        STATE.not_shown[ONE_RANK] = None


class NPUCheckpointSaverHook(_Saver):  # type: ignore[misc]
    """TensorFlow's own hook."""


class NPUOutputTensorHook(_Logging):  # type: ignore[misc]
    """Shows tensors, or gives them to a function, each so many steps."""

    def __init__(
        self, tensors: Any, dependencies: Any = None, output_fn: Any = None, output_every_n_steps: int = 1
    ) -> None:
        del dependencies
        formatter = None if output_fn is None else lambda values: str(output_fn([values]))
        super().__init__(tensors, every_n_iter=output_every_n_steps, formatter=formatter)


class NPUBroadcastGlobalVariablesCallback(_Callback):  # type: ignore[misc]
    """Sends variables to the other processes: there are none."""

    def __init__(self, root_rank: int = 0) -> None:
        super().__init__()
        del root_rank
        STATE.not_shown[ONE_RANK] = None


def npu_hooks_append(hooks_list: Sequence[Any] = (), is_tensorflow2: bool = False) -> list[Any]:
    """Return the hooks with that of the adapter."""
    del is_tensorflow2
    return [*(hooks_list or ()), NPUBroadcastGlobalVariablesHook()]


def npu_callbacks_append(callbacks_list: Sequence[Any] = (), is_tensorflow2: bool = False) -> list[Any]:
    """Return the callbacks with that of the adapter."""
    del is_tensorflow2
    return [*(callbacks_list or ()), NPUBroadcastGlobalVariablesCallback()]


def init_resource(server_def: Any = None, config: Any = None, mcast: Any = None) -> tuple[Any, Any]:
    """Return a session for what the adapter sets up, and an operator that ends it."""
    del server_def, mcast
    session = v1.Session(config=npu_config_proto(config))
    return session, tf.no_op()


def shutdown_resource(session: Any, npu_shutdown: Any) -> None:
    """Do nothing: there is no device."""
    del session, npu_shutdown


def close_session(session: Any) -> None:
    """Close a session."""
    session.close()


def set_keras_session_npu_config(config: Any = None) -> Any:
    """Make a session for the NPU that Keras uses, and return it."""
    session = v1.Session(config=npu_config_proto(config))
    v1.keras.backend.set_session(session)
    return session


def npu_clear_session(config: Any = None) -> Any:
    """Let Keras begin anew in a session for the NPU."""
    v1.keras.backend.clear_session()
    return set_keras_session_npu_config(config)


def set_iteration_per_loop(session: Any, train_op: Any, iterations_per_loop: int = 1) -> Any:
    """Return the operator: a run of a session that fetches it makes so many steps, each with its own batch."""
    del session
    if iterations_per_loop < 1:
        raise ValueError(f"iterations_per_loop must be at least 1; got {iterations_per_loop}.")
    operation = train_op if isinstance(train_op, tf.Operation) else train_op.op
    STATE.loops[operation.name] = iterations_per_loop
    return train_op


def keras_to_npu(model: Any, **_: Any) -> Any:
    """Return the Keras model as an Estimator."""
    return tf.keras.estimator.model_to_estimator(model)


model_to_npu_estimator = keras_to_npu


class NPUStrategy(tf.compat.v1.distribute.OneDeviceStrategy):  # type: ignore[misc]
    """One device: the CPU."""

    def __init__(self, *_: Any, **__: Any) -> None:
        super().__init__("/cpu:0")
        STATE.not_shown[ONE_RANK] = None


class TellMeStepOrLossHook(_Hook):  # type: ignore[misc]
    """Tells the device of the step: there is none."""

    def __init__(self, *_: Any, **__: Any) -> None:
        STATE.no_effect["TellMeStepOrLossHook"] = None


def _estimator() -> type:
    class NPUEstimator(tf.estimator.Estimator):  # type: ignore[misc]
        """TensorFlow's Estimator. `job_start_file` has no effect here."""

        def __init__(
            self, model_fn: Any = None, model_dir: Any = None, config: Any = None, params: Any = None,
            job_start_file: str = "", warm_start_from: Any = None,
        ) -> None:  # fmt: skip
            if job_start_file:
                STATE.no_effect[f"NPUEstimator(job_start_file={job_start_file!r})"] = None
            super().__init__(model_fn, model_dir, config, params, warm_start_from)

    return NPUEstimator


def _spec() -> type:
    class NPUEstimatorSpec(tf.estimator.EstimatorSpec):  # type: ignore[misc]
        """TensorFlow's EstimatorSpec. `host_call` sends summaries from the device to the host: there is none."""

        def __new__(cls, mode: Any, *arguments: Any, host_call: Any = None, **named: Any) -> Any:
            if host_call is not None:
                STATE.no_effect["NPUEstimatorSpec(host_call=…)"] = None
            return super().__new__(cls, mode, *arguments, **named)

    return NPUEstimatorSpec


_LATE = {"NPUEstimator": _estimator, "NPUEstimatorSpec": _spec}
"""Made when they are asked for: TensorFlow 2.16 and later have no Estimator."""


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(name)
    made = globals()[name] = _LATE[name]()
    return made
