"""The names that conversions import: each does on the CPU what the adapter does on one NPU."""

import tensorflow as tf
from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig  # noqa: F401  # conversions import it from here

v1 = tf.compat.v1
NPUEstimator = tf.estimator.Estimator
NPUEstimatorSpec = tf.estimator.EstimatorSpec


class NPURunConfig(tf.estimator.RunConfig):
    """RunConfig whose first parameters are the adapter's, so that arguments by position mean those."""

    def __init__(self, iterations_per_loop=1, profiling_config=None, **arguments):
        assert iterations_per_loop == 1
        assert profiling_config is None
        super().__init__(**arguments)


class npu_ops:
    @staticmethod
    def initialize_system():
        return tf.no_op()

    @staticmethod
    def shutdown_system():
        return tf.no_op()

    @staticmethod
    def dropout(x, keep_prob, noise_shape=None, seed=None, name=None):
        return v1.nn.dropout(x, keep_prob, noise_shape, seed, name)


class npu_unary_ops:
    @staticmethod
    def gelu(x):
        return tf.nn.gelu(x, approximate=True)


class hccl_ops:
    @staticmethod
    def allreduce(tensor, reduction):
        assert reduction == "sum"
        return tf.identity(tensor)


def get_rank_id():
    return 0


def get_rank_size():
    return 1


def npu_distributed_optimizer_wrapper(optimizer):
    return optimizer


class NPUBroadcastGlobalVariablesHook(v1.train.SessionRunHook):
    def __init__(self, root_rank, index):
        assert (root_rank, index) == (0, 0)


class FixedLossScaleManager:
    def __init__(self, loss_scale):
        self.loss_scale = loss_scale


def NPULossScaleOptimizer(optimizer, manager, is_distributed=False):
    assert not is_distributed
    return v1.mixed_precision.MixedPrecisionLossScaleOptimizer(optimizer, manager.loss_scale)
