"""Optimizers that step over flat buffers: drop-in for those of `torch.optim`, and four that PyTorch lacks.

Options and state dictionaries are those of `torch.optim` (RMSpropTF, Lamb, AdamP, BertAdam: those of
torch_npu's `NpuFused*`). What is faster and when: jumar docs flat-optimizers.
"""

from __future__ import annotations

from jumar.amp.flat.optimizers.of_torch import SGD, Adadelta, Adam, AdamW, RMSprop
from jumar.amp.flat.optimizers.others import AdamP, BertAdam, Lamb, RMSpropTF

__all__ = ["SGD", "Adadelta", "Adam", "AdamP", "AdamW", "BertAdam", "Lamb", "RMSprop", "RMSpropTF"]
