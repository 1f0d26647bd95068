"""Regions that `torch.compile` compiled: their operators run in one kernel and are not observed."""

from __future__ import annotations

import sys
from pathlib import Path


def compiled_regions(num_named: int = 5) -> list[str]:
    """Return at most one sentence that names the functions `torch.compile` was used on; none, an empty list.

    NOTE: the compiler keeps the code objects it has looked at; reading its list costs nothing, and
    the compiler is not imported by a script that does not use it.
    """
    convert_frame = sys.modules.get("torch._dynamo.convert_frame")
    codes = getattr(getattr(convert_frame, "input_codes", None), "seen", ())
    names = []
    for reference in codes:
        code = reference()
        if code is not None and "torch" not in Path(code.co_filename).parts:
            names.append(f"{code.co_name} ({Path(code.co_filename).name}:{code.co_firstlineno})")
    if not names:
        return []
    shown = ", ".join(sorted(names)[:num_named])
    more = f" and {len(names) - num_named} more" if len(names) > num_named else ""
    return [f"operators inside torch.compile regions are not recorded: {shown}{more}"]
