"""`with jumar.record(...)`: a recording of what a block of a script or notebook runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from jumar.capture.budget import parse_budget
from jumar.capture.patterns import read_patterns
from jumar.capture.plan import DEFAULT_LEVELS, DEFAULT_VALUES, Compiled, RecordPlan, Vary
from jumar.capture.session import Session
from jumar.capture.tracebacks import user_traceback
from jumar.recording import Level, Values


def plan_of(
    out: str | os.PathLike[str],
    *,
    levels: Sequence[Level] = DEFAULT_LEVELS,
    values: Values = DEFAULT_VALUES,
    steps: tuple[int, int] | None = None,
    budget: str | None = None,
    tensors_of: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    compiled: Compiled = "borders",
    vary: Vary = "",
    force: bool = False,
) -> RecordPlan:
    """Return the plan that these arguments of `record` mean. Raises UsageError."""
    size, slowdown = parse_budget(budget)
    patterns = (tensors_of,) if isinstance(tensors_of, str | os.PathLike) else tensors_of
    return RecordPlan(
        out=os.fspath(out),
        levels=tuple(levels),
        values=values,
        steps=steps,
        budget_bytes=size,
        budget_slowdown=slowdown,
        tensors_of=read_patterns([os.fspath(pattern) for pattern in patterns]),
        compiled=compiled,
        vary=vary,
        force=force,
        command=tuple(sys.argv),
    )


@contextmanager
def record(
    out: str | os.PathLike[str],
    *,
    model: Any = None,
    levels: Sequence[Level] = DEFAULT_LEVELS,
    values: Values = DEFAULT_VALUES,
    steps: tuple[int, int] | None = None,
    budget: str | None = None,
    tensors_of: str | os.PathLike[str] | Sequence[str | os.PathLike[str]] = (),
    compiled: Compiled = "borders",
    vary: Vary = "",
    force: bool = False,
) -> Iterator[Session]:
    """Record what runs inside the `with` block into the folder `out`.

    `model` names the module whose path is the empty one; without it that is the first outermost
    module with parameters that is called. `steps` is (first, end), counted from 0 within the block.
    `budget`, `tensors_of`, `compiled` and `vary` are those of `jumar record`: `"200MB,20%"`; patterns of row keys,
    or files with a list of them; `"graph"` to run regions of `torch.compile` operator by operator; `"ulp"` (or
    `"threads"`, `"kernels"`) to run the block under other conditions, for the noise floor of a comparison.

    Raises OutputError when `out` cannot be used, UsageError when another recording is under way or an
    argument is not one there is. What the block raises is passed on, after the finished steps are written.
    """
    plan = plan_of(
        out,
        levels=levels,
        values=values,
        steps=steps,
        budget=budget,
        tensors_of=tensors_of,
        compiled=compiled,
        vary=vary,
        force=force,
    )
    session = Session(plan, model=model, folder=Path(sys.argv[0]).resolve().parent)
    session.start()
    try:
        yield session
    except KeyboardInterrupt:
        session.end("interrupted", exit_code=130)
        raise
    except BaseException as error:
        session.end("raised", exit_code=1, error=user_traceback(error))
        raise
    session.end("finished")
