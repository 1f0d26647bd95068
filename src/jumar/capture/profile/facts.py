"""What `profile.json` says of a run: `run_facts`."""

from __future__ import annotations

import os
from datetime import datetime, timezone
from typing import Any

import torch

import jumar
from jumar.capture.profile.folder import launch_of
from jumar.capture.profile.watch.host import INTERVAL_S
from jumar.capture.session.settings import default_device, environment
from jumar.device import ActiveDevice


def run_facts(device: ActiveDevice | None) -> dict[str, Any]:
    """Return versions, device, threads and clocks of this process's run."""
    return {
        "jumar_version": jumar.__version__,
        "torch_version": str(torch.__version__),
        "torch_npu_version": device.torch_npu_version if device is not None else "",
        "created": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "device": device.description if device is not None else default_device(),
        "soc": device.soc if device is not None else "",
        "launch": launch_of(os.environ),
        "world_size": int(os.environ.get("WORLD_SIZE") or 1),
        "num_threads": torch.get_num_threads(),
        "environment": environment(),
        "clock": "nanoseconds since 1970",
        "host_interval_s": INTERVAL_S,
    }
