"""One process of one."""

from jumar.tfadapter.bridge.device import (
    all_reduce,
    broadcast,
    npu_distributed_keras_optimizer_wrapper,
    shard_and_rebatch_dataset,
)
