"""`survey_npu`: CANN, the driver's tool and the device files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from jumar.advise.doctor.machine.host import Npu

CANN_VARIABLES = ("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "ASCEND_OPP_PATH", "ASCEND_AICPU_PATH")
"""Variables that `set_env.sh` of CANN sets, each to a folder."""
CANN_PLACES = ("usr/local/Ascend/cann", "usr/local/Ascend/ascend-toolkit", "usr/local/Ascend/nnae")
CANN_HOME_PLACES = ("Ascend/cann", "Ascend/ascend-toolkit", "Ascend/nnae")
TOOL_PLACES = ("usr/local/sbin/npu-smi", "usr/local/bin/npu-smi")


def survey_npu(environ: Mapping[str, str], root: Path) -> Npu:
    """Find CANN, the driver's tool and the device files."""
    home = environ.get("HOME", "")
    places = [root / place for place in CANN_PLACES]
    places += [Path(home) / place for place in CANN_HOME_PLACES if home]
    nodes = sorted((root / "dev").glob("davinci[0-9]*")) if (root / "dev").is_dir() else []
    tool = shutil.which("npu-smi", path=environ.get("PATH", ""))
    usual = next((str(root / place) for place in TOOL_PLACES if (root / place).exists()), None)
    return Npu(
        cann_folders=tuple(str(place) for place in places if place.is_dir()),
        missing_folders=tuple(
            f"{name}={environ[name]}"
            for name in CANN_VARIABLES
            if environ.get(name) and not Path(environ[name]).is_dir()
        ),
        npu_smi=tool or usual,
        device_nodes=tuple(str(node) for node in nodes),
        unreadable_nodes=tuple(str(node) for node in nodes if not os.access(node, os.R_OK | os.W_OK)),
    )
