"""Jumar brings PyTorch models from GPUs to Ascend NPUs and other accelerators.

The names below are loaded when first used, so that `import jumar` stays fast and imports no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.lazy import directory, loader

if TYPE_CHECKING:
    from jumar.capture import HuggingFaceProfiler, HuggingFaceRecorder, LightningProfiler, LightningRecorder, record
    from jumar.capture.frameworks.profile import profile
    from jumar.comparison import compare
    from jumar.device import emulate
    from jumar.tune.artefact import load

__version__ = "0.1.0"
__all__ = ["HuggingFaceProfiler", "HuggingFaceRecorder", "LightningProfiler", "LightningRecorder", "__version__"]
__all__ += ["compare", "emulate", "load", "profile", "record"]

_HOME = {
    "compare": "jumar.comparison",
    "emulate": "jumar.device",
    "HuggingFaceProfiler": "jumar.capture",
    "HuggingFaceRecorder": "jumar.capture",
    "LightningProfiler": "jumar.capture",
    "LightningRecorder": "jumar.capture",
    "load": "jumar.tune.artefact",
    "profile": "jumar.capture.frameworks.profile",
    "record": "jumar.capture",
}

__getattr__ = loader(__name__, __all__, _HOME)
__dir__ = directory(__name__, __all__)
