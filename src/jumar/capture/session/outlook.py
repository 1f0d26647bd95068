"""Says whether the program may train yet, from its sources: `program_may_train`."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

_TRAINS = re.compile(r"\boptim\b|[Oo]ptimizer|Trainer\b|\.fit\(")
"""Words of a source that makes an optimizer, or lets a framework make one."""

_OTHERS = ("site-packages", "dist-packages")


def program_may_train() -> bool:
    """Return whether the script, or a module beside it that it has imported, speaks of optimizers.

    A program that has called its model and made no optimizer infers, or it is getting ready to train.
    """
    return any(_TRAINS.search(_text(path)) for path in _sources())


def _sources() -> Iterator[Path]:
    main = getattr(sys.modules.get("__main__"), "__file__", None)
    if not main:
        return
    script = Path(main).resolve()
    yield script
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(".py"):
            path = Path(file).resolve()
            if script.parent in path.parents and not any(part in _OTHERS for part in path.parts):
                yield path


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8", errors="replace")
    except OSError:
        return ""
