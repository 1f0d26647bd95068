"""Jumar brings PyTorch models from GPUs to Ascend NPUs and other accelerators.

The names below are loaded when first used, so that `import jumar` stays fast and imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import loader

if TYPE_CHECKING:
    from jumar.capture import HuggingFaceRecorder, LightningRecorder, record
    from jumar.comparison import compare
    from jumar.device import emulate
    from jumar.tune.artefact import load

__version__ = "0.1.0"
__all__ = ["HuggingFaceRecorder", "LightningRecorder", "__version__", "compare", "emulate", "load", "record"]

_HOME = {
    "compare": "jumar.comparison",
    "emulate": "jumar.device",
    "HuggingFaceRecorder": "jumar.capture",
    "LightningRecorder": "jumar.capture",
    "load": "jumar.tune.artefact",
    "record": "jumar.capture",
}

__getattr__ = loader(__name__, __all__, _HOME)
