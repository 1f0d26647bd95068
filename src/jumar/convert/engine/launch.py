"""Writes the script that starts a converted training by torchrun, one process a device."""

from __future__ import annotations

import shlex
from pathlib import PurePosixPath

from jumar.base.errors import UsageError
from jumar.convert.model.options import ConvertOptions

FILE_NAME = "run_distributed_npu.sh"
"""The file the script is written to, at the root of the converted tree (it should be executable)."""

_SCRIPT = r"""#!/usr/bin/env bash
# Trains @MAIN@ on several devices of this machine: one process a device, started by torchrun.
#
#   ./@NAME@ [-n DEVICES] [ARGUMENTS OF THE TRAINING SCRIPT]
#
# Without -n every device is used that this machine has, or that @VISIBLE@ names.
# More than one machine: set MASTER_ADDR, MASTER_PORT, NNODES and NODE_RANK on each.
# Without an NPU, on Jumar's emulated one: JUMAR_DEVICE_PLAN='{"soc": "Ascend910B1"}' ./@NAME@ -n 2
set -euo pipefail

here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
script=$here/@QUOTED@
python=${PYTHON:-$(command -v python3 || command -v python)}

devices=
if [[ ${1:-} == -n ]]; then
    devices=${2:-}
    shift $(($# > 1 ? 2 : 1))
elif [[ -n ${@VISIBLE@:-} ]]; then
    IFS=, read -ra visible <<< "$@VISIBLE@"
    devices=${#visible[@]}
else
    devices=$("$python" -c 'import torch; print(@COUNT@)')
fi
if ! [[ $devices =~ ^[1-9][0-9]*$ ]]; then
    echo "The number of devices must be 1 or more; got \"$devices\". Give it with -n, as in -n 8." >&2
    exit 2
fi

if [[ -n ${MASTER_ADDR:-} ]]; then
    where=(--nnodes "${NNODES:-1}" --node-rank "${NODE_RANK:-0}"
        --master-addr "$MASTER_ADDR" --master-port "${MASTER_PORT:-29500}")
elif [[ -n ${MASTER_PORT:-} ]]; then
    where=(--master-addr 127.0.0.1 --master-port "$MASTER_PORT")
else
    where=(--standalone) # torchrun takes a port that is free
fi
@ENVIRONMENT@
exec "$python" -m torch.distributed.run "${where[@]}" --nproc-per-node "$devices" -- "$script" "$@"
"""

_NPU = "export HCCL_WHITELIST_DISABLE=${HCCL_WHITELIST_DISABLE:-1} # no list of the machines that may take part\n"


def script(main: str, options: ConvertOptions) -> bytes:
    """Return the bytes of `run_distributed_npu.sh` for the entry script `main`, relative to the tree's root.

    The script returns torchrun's exit code. Raises UsageError when `main` is absolute or leaves the tree.
    """
    path = PurePosixPath(main.replace("\\", "/"))
    if path.is_absolute() or ".." in path.parts or not path.name:
        raise UsageError(f'"distributed -m {main}" must be a file below the input. Name it relative to the input.')
    is_npu = options.target == "npu"
    words = {
        "@MAIN@": path.as_posix().replace("\n", " "),
        "@QUOTED@": shlex.quote(path.as_posix()),
        "@NAME@": FILE_NAME,
        "@VISIBLE@": "ASCEND_RT_VISIBLE_DEVICES" if is_npu else "VISIBLE_DEVICES",
        "@COUNT@": "torch.npu.device_count()" if is_npu else "torch.accelerator.device_count()",
        "@ENVIRONMENT@": _NPU if is_npu else "",
    }
    text = _SCRIPT
    for mark, word in words.items():
        text = text.replace(mark, word)
    return text.encode()
