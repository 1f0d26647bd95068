"""An Ascend NPU for machines that have none: real PyTorch tensors on `npu`, computed by CPU kernels.

`jumar.device.activate` brings it up; the names below work once it is up. How it is built: `core.retag` gives a
CPU tensor's memory the device label `npu`, `dispatch` runs operators, `ops.kernels` holds the special kernels,
`parallel` the logical devices above `npu:0`, `api.npu` is the module `torch.npu`, and `api.alias` is what
`import torch_npu` finds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader

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
__dir__ = directory(__name__, __all__)
