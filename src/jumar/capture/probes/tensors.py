"""Whole tensors, copied to host memory when they are seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from jumar.capture.calls import Seen
from jumar.capture.memory import host_view
from jumar.capture.probes.base import Probe

if TYPE_CHECKING:
    import numpy as np

_RAW = {1: torch.uint8, 2: torch.uint16, 4: torch.uint32, 8: torch.uint64}


class TensorsProbe(Probe):
    """Fills `Seen.array`. A tensor that several rows see unchanged is copied once."""

    def on_tensor(self, seen: Seen, tensor: torch.Tensor) -> None:
        """Copy the tensor; this waits for its device."""
        if tensor.is_meta or tensor.layout is not torch.strided or tensor.is_quantized:
            return
        on_host = host_view(tensor)
        seen.array = to_array(tensor.detach().cpu() if on_host is None else on_host.clone())


def to_array(tensor: torch.Tensor) -> np.ndarray:
    """Return a CPU tensor as an array; a dtype NumPy lacks (bfloat16, float8) as raw unsigned integers."""
    plain = tensor.resolve_conj().resolve_neg()
    try:
        return plain.numpy()
    except TypeError:
        return plain.contiguous().view(_RAW[plain.element_size()]).numpy()
