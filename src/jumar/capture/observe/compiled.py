"""Sentences about regions that `torch.compile` compiled: which of their operators a recording does not hold."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, cast

from jumar.base.text import listing
from jumar.capture.notes.lines import is_users


def silence_hooks() -> Callable[[], None]:
    """Keep PyTorch from warning of the observer's own hooks when a module is compiled; return what undoes it.

    The warning is of global hooks that run once more for the wrapper, which the observer expects; a program that
    turns warnings into errors would end by it.
    """
    warnings.filterwarnings("ignore", message=r"Using `torch\.compile\(module\)` when there are global hooks")
    entry = warnings.filters[0]

    def undo() -> None:
        if entry in warnings.filters:
            cast(list[Any], warnings.filters).remove(entry)

    return undo


def known_codes() -> list[Any]:
    """Return the code objects of the user that the compiler has looked at in this process.

    NOTE: the compiler keeps them itself; reading its list costs nothing, and the compiler is not imported by a
    program that does not use it. It looks into what it meets on its way, too: PyTorch's, Python's and our own
    code (the emulated NPU's streams), in which no user's operator runs.
    """
    convert_frame = sys.modules.get("torch._dynamo.convert_frame")
    codes = [reference() for reference in getattr(getattr(convert_frame, "input_codes", None), "seen", ())]
    return [code for code in codes if code is not None and is_users(code.co_filename)]


def compiled_regions(regions: Mapping[Any, str], unwatched: Iterable[Any]) -> list[str]:
    """Return a sentence for each way in which regions were not recorded as they ran.

    `regions` maps code to how it was observed (see `GraphWatch`), `unwatched` is code compiled before the
    recording began.
    """
    told = []
    for codes, sentence in (
        ([code for code in unwatched if code not in regions], "are not recorded; they were compiled before"),
        (_with(regions, "borders"), "are recorded at their borders only; --compiled graph records each operator"),
        (_with(regions, "instead"), "ran operator by operator, not in compiled kernels, in recorded steps"),
    ):
        if codes:
            told.append(f"operators inside torch.compile regions {sentence}: {_named(codes)}")
    return told


def modules_inside(codes: Iterable[Any]) -> list[str]:
    """Return a sentence on regions that call modules, if there are any."""
    found = list(codes)
    return [f"modules called inside torch.compile regions have no rows of their own: {_named(found)}"] if found else []


def _with(regions: Mapping[Any, str], way: str) -> list[Any]:
    return [code for code, how in regions.items() if how == way]


def _named(codes: list[Any], num_named: int = 5) -> str:
    names = sorted({f"{code.co_name} ({Path(code.co_filename).name}:{code.co_firstlineno})" for code in codes})
    return listing(names, num_named)
