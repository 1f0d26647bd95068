"""Loss scale."""

from jumar.tfadapter.bridge.device import npu_loss_scale_optimizer as NpuLossScaleOptimizer
