"""A model is captured in a process of its own: its code may end that process, crash it, hang, or change it.

    python -m jumar.tune.graph.capture.apart WHERE FOLDER INPUT_SHAPE PIPE

captures, and writes `captured.json` into the folder: the graphs, or the error in one sentence. What the model prints
goes to stderr. The process ends with the one that started it, which holds the other end of PIPE.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from jumar.base import errors
from jumar.base.errors import InputError, JumarError
from jumar.base.files import write_text
from jumar.base.process import children
from jumar.tune.graph.capture.captured import Captured
from jumar.tune.model.errors import TuneError

ANSWER = "captured.json"


def captured_apart(where: str, *, folder: Path, input_shape: str = "", limit_s: float | None = None) -> list[Captured]:
    """Return what `load_graphs` returns, found by another process in at most `limit_s` seconds (None: no limit).

    Raises JumarError as `load_graphs` does, and TuneError when the process ends without an answer or takes longer.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{folder} cannot be made: {error.strerror}. Name another folder.") from error
    answer = folder / ANSWER
    answer.unlink(missing_ok=True)
    with _started(where, folder, input_shape) as process:
        try:
            code = process.wait(limit_s)
        except subprocess.TimeoutExpired as error:
            raise TuneError(
                f"{where} was not captured within the time budget: {limit_s:.0f} s were left for it. Give more "
                "--time-budget; or see by hand whether the model's call returns."
            ) from error
    return _read(answer, where, code)


@contextmanager
def _started(where: str, folder: Path, input_shape: str) -> Iterator[subprocess.Popen[bytes]]:
    """Start the process; at the end, however that comes, it and what it started are ended."""
    theirs, ours = os.pipe()
    try:
        process = subprocess.Popen(
            children.command(module=__name__, arguments=[where, str(folder.absolute()), input_shape, str(theirs)]),
            stdin=subprocess.DEVNULL, pass_fds=[theirs], start_new_session=True,  # Ctrl-C is the tuner's to handle
        )  # fmt: skip
    finally:
        os.close(theirs)
    try:
        yield process
    finally:
        os.close(ours)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _read(answer: Path, where: str, code: int) -> list[Captured]:
    try:
        found = json.loads(answer.read_text("utf-8"))
    except (OSError, ValueError):
        raise TuneError(
            f"{where} cannot be captured: the process that ran it {_ended(code)}. Call the model by hand with the same "
            "inputs, and mend it or them."
        ) from None
    if "graphs" in found:
        return [Captured.from_json(one) for one in found["graphs"]]
    kinds: Mapping[str, Any] = vars(errors) | {TuneError.__name__: TuneError}
    raise next(kinds[name] for name in found["error"] if name in kinds)(found["message"])


def _ended(code: int) -> str:
    if code >= 0:
        return f"ended with exit code {code}"
    with suppress(ValueError):
        name = signal.Signals(-code).name
        return f"was ended by {name}" + (", as the system does when memory runs out" if name == "SIGKILL" else "")
    return f"was ended by signal {-code}"


def main() -> int:
    """Capture, and write the answer."""
    where, folder, input_shape, pipe = sys.argv[1:]
    threading.Thread(target=_end_with, args=(int(pipe),), daemon=True).start()
    os.dup2(2, 1)
    try:
        from jumar.tune.graph.capture.source import load_graphs

        graphs = load_graphs(where, folder=Path(folder), input_shape=input_shape)
        found: dict[str, Any] = {"graphs": [one.to_json() for one in graphs]}
    except JumarError as error:
        found = {"error": [kind.__name__ for kind in type(error).__mro__], "message": str(error)}
    except KeyboardInterrupt:
        return 1
    write_text(Path(folder) / ANSWER, json.dumps(found))
    return 0


def _end_with(pipe: int) -> None:
    """End this process when the one that started it is gone."""
    os.read(pipe, 1)
    os._exit(1)


if __name__ == "__main__":
    status = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)  # threads that the model left must not keep it
