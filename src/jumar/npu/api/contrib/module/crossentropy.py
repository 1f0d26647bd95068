"""Cross entropy with smoothed labels."""

from __future__ import annotations

import torch
from torch import nn

Tensor = torch.Tensor

__all__ = ["LabelSmoothingCrossEntropy"]


class LabelSmoothingCrossEntropy(nn.Module):
    """Mean cross entropy of logits against labels of which `smooth_factor` is spread over the other classes.

    The logits are (batch, num_classes), the targets (batch,) class indices, the result 0-dim float32. Unlike
    `torch.nn.CrossEntropyLoss(label_smoothing=...)`, the true class gets none of the spread part.
    """

    def __init__(self, num_classes: int = 1000, smooth_factor: float = 0.0) -> None:
        super().__init__()
        self.on_value = 1.0 - smooth_factor
        self.off_value = smooth_factor / (num_classes - 1)

    def forward(self, pred: Tensor, target: Tensor) -> Tensor:
        """Return the loss."""
        labels = torch.ops.npu.npu_one_hot(target.int(), -1, pred.size(1), self.on_value, self.off_value)
        losses: Tensor = torch.ops.npu.npu_softmax_cross_entropy_with_logits(pred, labels)
        return torch.mean(losses, [0], keepdim=False, dtype=torch.float32)
