"""`torch_npu.contrib`: the vendor's rewritings of common layers and functions, on the emulated NPU.

`function` and `module` hold them, in files named as the vendor's. Each uses the operators that the vendor
uses, so that a recording shows what an NPU would run. `jumar docs emulator-contrib` tells what is peculiar.
"""

from __future__ import annotations

from jumar.npu.api.contrib import function, module

_BELOW_ONLY = ("DropoutWithByteMask", "QuantConv2d", "dropout_with_byte_mask", "fuse_add_softmax_dropout")
"""Names that the vendor has in `function` and `module`, and not here."""
_FOUND = {name: getattr(part, name) for part in (module, function) for name in part.__all__ if name not in _BELOW_ONLY}
globals().update(_FOUND)
__all__ = list(_FOUND)
