"""Entry point of PyTorch's `torch.backends` group: brings up the device and the observer in child processes.

PyTorch calls it at the end of every `import torch`. It returns at once unless the environment says
that this process belongs to a run of Jumar's. The process that runs the script itself does not need
it: `claim` says so.
"""

from __future__ import annotations

import os

_VARIABLES = ("JUMAR_DEVICE_PLAN", "JUMAR_RECORD_PLAN", "JUMAR_STOP_AFTER", "JUMAR_WORKSPACE", "JUMAR_SEED")
_state = {"done": False}


def claim() -> None:
    """Say that this process brings up its device and observer itself."""
    _state["done"] = True


def autoload() -> None:
    """Join the run that the environment describes, once a process; do nothing when it describes none."""
    if _state["done"] or not any(name in os.environ for name in _VARIABLES):
        return
    _state["done"] = True
    from jumar.capture.inherit import join_run

    join_run(os.environ)
