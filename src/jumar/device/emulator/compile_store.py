"""The compile cache on disk: what `ACL_OP_COMPILER_CACHE_MODE` and `ACL_OP_COMPILER_CACHE_DIR` ask for.

    enable    operators found in the folder are not compiled again; those compiled are added
    force     the operators in the folder are removed first, then as `enable`
    disable   nothing on disk

Both options have to be set, and the folder has to exist. What is kept for an operator is its key, one
small file each: the emulator has no binary to keep. Files carry the chip and the torch version, so one
folder serves several.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch

from jumar.device.emulator import crash_safe
from jumar.device.emulator.state import STATE
from jumar.errors import OutputError

MODE, FOLDER = "ACL_OP_COMPILER_CACHE_MODE", "ACL_OP_COMPILER_CACHE_DIR"
_PREFIX, _SUFFIX = "operator-", ".key"

_cleared: set[Path] = set()
"""Folders that `force` has emptied in this process."""


def holds(key: str) -> bool:
    """Return whether an operator is in the folder, where one is in use; a missing one is added.

    Raises OutputError for a folder that is not there or cannot be written.
    """
    folder = _folder()
    if folder is None:
        return False
    text = f"{STATE.soc}\n{torch.__version__}\n{key}\n"
    file = folder / f"{_PREFIX}{hashlib.sha256(text.encode()).hexdigest()[:32]}{_SUFFIX}"
    if file.exists():
        return True
    crash_safe.write(file, text.encode())
    return False


def _folder() -> Path | None:
    mode, name = STATE.options.get(MODE), STATE.options.get(FOLDER)
    if mode not in ("enable", "force") or not name:
        return None
    folder = Path(name)
    if not folder.is_dir():
        raise OutputError(f"{FOLDER} must be a folder that exists; got {name}: create it first.")
    if mode == "force" and folder not in _cleared:
        _cleared.add(folder)
        for file in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
            file.unlink(missing_ok=True)
    return folder
