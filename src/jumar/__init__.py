"""Jumar brings PyTorch models from GPUs to Ascend NPUs and other accelerators.

The names below are loaded when first used, so that `import jumar` stays fast and imports no torch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from jumar.base.lazy import directory, loader

if TYPE_CHECKING:
    from jumar import amp
    from jumar.capture import HuggingFaceProfiler, HuggingFaceRecorder, LightningProfiler, LightningRecorder, record
    from jumar.capture.frameworks.profile import profile
    from jumar.comparison import compare
    from jumar.device import emulate
    from jumar.tune.artefact import load

    __version__: str

__all__ = ["HuggingFaceProfiler", "HuggingFaceRecorder", "LightningProfiler", "LightningRecorder", "__version__"]
__all__ += ["amp", "compare", "emulate", "load", "profile", "record"]

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

_load = loader(__name__, __all__, _HOME)


def __getattr__(name: str) -> Any:
    """Load a public name when it is first used; `amp` is a package, and the version comes from what is installed."""
    if name == "__version__":
        return _version()
    return importlib.import_module("jumar.amp") if name == "amp" else _load(name)


def _version() -> str:
    """Return the version that the tags gave when Jumar was installed."""
    from importlib import metadata

    try:
        return metadata.version("jumar")
    except metadata.PackageNotFoundError:  # a checkout that was never installed
        return "0+unknown"


def load_ipython_extension(shell: Any) -> None:
    """Answer `%load_ext jumar`: register the magics of `jumar.cli.notebook`."""
    importlib.import_module("jumar.cli.notebook").load(shell)


__dir__ = directory(__name__, __all__)
