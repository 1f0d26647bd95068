"""Entry point of PyTorch's `torch.backends` group: brings up the device and the observer in child processes.

PyTorch calls `autoload` at the end of every `import torch`. It returns at once unless the environment says that this
process belongs to a run of Jumar. The process that runs the script itself has called `claim` and is left alone.
"""

from __future__ import annotations

import os

from jumar.capture.plans.claims import claim, is_claimed

_VARIABLES = (
    "JUMAR_DEVICE_PLAN",
    "JUMAR_RECORD_PLAN",
    "JUMAR_PROFILE_PLAN",
    "JUMAR_STOP_AFTER",
    "JUMAR_WORKSPACE",
    "JUMAR_SEED",
)


def autoload() -> None:
    """Join the run that the environment describes, once a process; do nothing when it describes none."""
    if is_claimed() or not any(name in os.environ for name in _VARIABLES):
        return
    claim()
    from jumar.capture.process.inherit import join_run

    join_run(os.environ)
