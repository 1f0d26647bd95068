"""Optimizers of the adapter on one process: loss scale as documented, distribution that changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from jumar.tfadapter.bridge.state import STATE

v1 = tf.compat.v1
_Optimizer: Any = v1.train.Optimizer
ONE_RANK = "gradients of several processes: this run is one process, and its optimizer reduces nothing"


class FixLossScaleManager:
    """A loss scale that stays as it is."""

    def __init__(self, loss_scale: float, enable_overflow_check: bool = True) -> None:
        if loss_scale < 1:
            raise ValueError(f"loss_scale must be at least 1; got {loss_scale}.")
        self.scale = v1.get_variable(
            "npu_loss_scale", initializer=float(loss_scale), trainable=False, dtype=tf.float32,
            collections=[v1.GraphKeys.GLOBAL_VARIABLES],
        )  # fmt: skip
        self.skips = enable_overflow_check

    def get_loss_scale(self) -> Any:
        """Return the scale, a scalar."""
        return self.scale.read_value()

    def update_loss_scale(self, finite_grads: Any) -> Any:
        """Do nothing."""
        del finite_grads
        return tf.no_op()


class ExponentialUpdateLossScaleManager(FixLossScaleManager):
    """A loss scale that grows after steps without overflow, and shrinks after those with one."""

    def __init__(
        self, init_loss_scale: float, incr_every_n_steps: int, decr_every_n_nan_or_inf: int = 2, incr_ratio: float = 2,
        decr_ratio: float = 0.8,
    ) -> None:  # fmt: skip
        super().__init__(init_loss_scale)
        self._every, self._after = incr_every_n_steps, decr_every_n_nan_or_inf
        self._up, self._down = incr_ratio, decr_ratio
        self._good, self._bad = (
            v1.get_variable(name, initializer=0, trainable=False, collections=[v1.GraphKeys.GLOBAL_VARIABLES])
            for name in ("npu_good_steps", "npu_bad_steps")
        )

    def update_loss_scale(self, finite_grads: Any) -> Any:
        """Return the operator that counts a step and changes the scale."""

        def good() -> Any:
            count = self._good + 1
            grows = count >= self._every
            scale = tf.where(grows, self.scale * self._up, self.scale)
            new = tf.where(tf.math.is_finite(scale), scale, self.scale)
            updates = [
                v1.assign(self.scale, new),
                v1.assign(self._good, tf.where(grows, 0, count)),
                v1.assign(self._bad, 0),
            ]
            return tf.group(*updates)

        def bad() -> Any:
            count = self._bad + 1
            shrinks = count >= self._after
            new = tf.where(shrinks, tf.maximum(1.0, self.scale * self._down), self.scale)
            updates = [
                v1.assign(self.scale, new),
                v1.assign(self._bad, tf.where(shrinks, 0, count)),
                v1.assign(self._good, 0),
            ]
            return tf.group(*updates)

        return v1.cond(finite_grads, good, bad)


class NPULossScaleOptimizer(_Optimizer):  # type: ignore[misc]
    """Scales the loss, unscales gradients, and leaves out a step whose gradients are not finite."""

    def __init__(self, opt: Any, loss_scale_manager: Any, is_distributed: bool = False) -> None:
        super().__init__(use_locking=False, name="NPULossScaleOptimizer")
        self._opt, self._manager = opt, loss_scale_manager
        if is_distributed:
            STATE.not_shown[ONE_RANK] = None

    def compute_gradients(self, loss: Any, var_list: Any = None, **options: Any) -> list[tuple[Any, Any]]:
        """Return the gradients of the loss, unscaled."""
        scale = self._manager.get_loss_scale()
        found = self._opt.compute_gradients(loss * tf.cast(scale, loss.dtype), var_list=var_list, **options)
        return [(_unscaled(gradient, scale), variable) for gradient, variable in found]

    def apply_gradients(
        self, grads_and_vars: Sequence[tuple[Any, Any]], global_step: Any = None, name: Any = None
    ) -> Any:
        """Return the operator that applies them where all are finite, and tells the manager."""
        known = [(gradient, variable) for gradient, variable in grads_and_vars if gradient is not None]
        finite = tf.reduce_all([tf.reduce_all(tf.math.is_finite(_dense(gradient))) for gradient, _ in known])

        def apply() -> Any:
            return tf.group(self._opt.apply_gradients(known, global_step=global_step, name=name))

        done = v1.cond(finite, apply, tf.no_op) if self._manager.skips else apply()
        with v1.control_dependencies([done]):
            return tf.group(done, self._manager.update_loss_scale(finite))


def _dense(gradient: Any) -> Any:
    return gradient.values if isinstance(gradient, tf.IndexedSlices) else gradient


def _unscaled(gradient: Any, scale: Any) -> Any:
    if gradient is None:
        return None
    factor = tf.cast(1.0 / scale, gradient.dtype)
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(gradient.values * factor, gradient.indices, gradient.dense_shape)
    return gradient * factor


def npu_distributed_optimizer_wrapper(optimizer: Any) -> Any:
    """Return the optimizer: one process has nothing to reduce."""
    STATE.not_shown[ONE_RANK] = None
    return optimizer


npu_tf_optimizer = npu_keras_optimizer = npu_distributed_optimizer_wrapper


def KerasDistributeOptimizer(optimizer: Any, name: str = "") -> Any:
    """Return the optimizer."""
    del name
    return npu_distributed_optimizer_wrapper(optimizer)


def NPUDistributedOptimizer(optimizer: Any, is_weight_update_sharding: bool = False, name: Any = None) -> Any:
    """Return the optimizer."""
    del is_weight_update_sharding, name
    return npu_distributed_optimizer_wrapper(optimizer)


def NPUOptimizer(
    opt: Any, loss_scale_manager: Any = None, is_distributed: bool = False, is_loss_scale: bool = False,
    is_tailing_optimization: bool = False, name: Any = None,
) -> Any:  # fmt: skip
    """Return the optimizer, with loss scale where that is asked for."""
    del is_tailing_optimization, name
    if is_loss_scale:
        if loss_scale_manager is None:
            raise ValueError("NPUOptimizer(is_loss_scale=True) needs a loss_scale_manager, and has none. Give it one.")
        return NPULossScaleOptimizer(opt, loss_scale_manager, is_distributed)
    return npu_distributed_optimizer_wrapper(opt) if is_distributed else opt


def npu_allreduce(values: Any, reduction: str = "mean", fusion: int = 1, fusion_id: int = -1, group: str = "") -> Any:
    """Return the values: the sum and the mean of one process."""
    del reduction, fusion, fusion_id, group
    STATE.not_shown[ONE_RANK] = None
    return values
