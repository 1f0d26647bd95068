"""OpenVINO's package as Jumar imports it: nothing is told to anybody.

At its import the package reports that it was imported to a server of its makers, from a thread that starts a process
(openvino-telemetry 2025.2). It does without where the reporting package is missing, so that is what it finds here. A
program that imported OpenVINO itself before is left as it is.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any, cast

_REPORTING = "openvino_telemetry"


def package() -> Any:
    """Return the package `openvino`. Raises ImportError when it is not installed."""
    is_new = "openvino" not in sys.modules and _REPORTING not in sys.modules
    if is_new:
        sys.modules[_REPORTING] = cast(ModuleType, None)  # what `import` takes for a module that is not there
    try:
        import openvino
    finally:
        if is_new:
            del sys.modules[_REPORTING]
    return openvino
