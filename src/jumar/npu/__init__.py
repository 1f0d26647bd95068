"""An Ascend NPU for machines that have none: real PyTorch tensors on `npu`, computed by CPU kernels.

`jumar.device.activate` brings it up; the names below work once it is. How it is built: `retag` gives a
CPU tensor's memory the device label `npu`, `dispatch` runs operators, `kernels` holds the special ones,
`multiple` the logical devices above `npu:0`, `npu` is the `torch.npu` module, `torch_npu_alias` what
`import torch_npu` finds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import loader

if TYPE_CHECKING:
    from jumar.npu.core.events import OperatorEvent, listen
    from jumar.npu.dispatch.overrides import override

__all__ = ["OperatorEvent", "listen", "override"]

_HOME = {
    "OperatorEvent": "jumar.npu.core.events",
    "listen": "jumar.npu.core.events",
    "override": "jumar.npu.dispatch.overrides",
}

__getattr__ = loader(__name__, __all__, _HOME)
