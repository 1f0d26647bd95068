"""All names of the adapter, as programs import them with *."""

from tensorflow.core.protobuf.rewriter_config_pb2 import RewriterConfig

from jumar.tfadapter.bridge.configs import (
    DumpConfig,
    DynamicInputConfig,
    ExperimentalConfig,
    MemoryConfig,
    ProfilingConfig,
    npu_config_proto,
    npu_run_config_init,
)
from jumar.tfadapter.bridge.hooks import (
    NPUBroadcastGlobalVariablesCallback,
    NPUBroadcastGlobalVariablesHook,
    NPUCheckpointSaverHook,
    NPUOutputTensorHook,
    NPUStrategy,
    TellMeStepOrLossHook,
    close_session,
    init_resource,
    keras_to_npu,
    model_to_npu_estimator,
    npu_callbacks_append,
    npu_clear_session,
    npu_hooks_append,
    set_iteration_per_loop,
    set_keras_session_npu_config,
    shutdown_resource,
)
from jumar.tfadapter.bridge.operators import (
    create_group,
    destroy_group,
    get_local_rank_id,
    get_local_rank_size,
    get_rank_id,
    get_rank_size,
    hccl_ops,
    npu_ops,
    npu_plugin,
    npu_scope,
    npu_unary_ops,
    set_split_strategy_by_idx,
    set_split_strategy_by_size,
)
from jumar.tfadapter.bridge.optimizers import (
    ExponentialUpdateLossScaleManager,
    FixLossScaleManager,
    KerasDistributeOptimizer,
    NPUDistributedOptimizer,
    NPULossScaleOptimizer,
    NPUOptimizer,
    npu_allreduce,
    npu_distributed_optimizer_wrapper,
    npu_keras_optimizer,
    npu_tf_optimizer,
)

try:
    from jumar.tfadapter.bridge.configs import NPURunConfig
    from jumar.tfadapter.bridge.hooks import NPUEstimator, NPUEstimatorSpec
except (AttributeError, ImportError):  # TensorFlow 2.16 and later have no Estimator
    pass

FixedLossScaleManager = FixLossScaleManager
