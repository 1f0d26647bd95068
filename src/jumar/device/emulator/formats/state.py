"""Which format the memory of each npu tensor has.

The state is an attribute of the storage's Python object, which PyTorch keeps alive as long as the
storage itself: every view sees it, and it goes when the memory does.
"""

from __future__ import annotations

import torch

from jumar.device.emulator.formats.names import Format, base_of_rank

_ATTRIBUTE = "_jumar_layout"


def format_of(tensor: torch.Tensor) -> Format:
    """Return the format of this tensor's memory; the base format of its rank where nobody has cast it."""
    layout: Format | None = getattr(tensor.untyped_storage(), _ATTRIBUTE, None)
    return base_of_rank(tensor.dim()) if layout is None else layout
