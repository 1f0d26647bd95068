"""The worker process: imports PyTorch once, then forks one child a trial and watches over it.

    python -m jumar.tune.measure.worker.nursery

reads requests on stdin and answers on stdout, one JSON object a line: first `{"preload", "providers", "device"}`,
answered by `{"error": ""}`; then trials, answered by an `Outcome`. It ends, with its child, when stdin
is closed, so nothing outlives a tuner that was killed.

Forking is safe here because nothing in this process has started a thread: it never computes anything.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import resource
import select
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, Any

from jumar.tune.measure.worker.messages import NO_ROOM, Outcome, Phase, Trial

POLL_S = 0.1
COPIES_OF_WORK = 8
"""So many times the tensors of a task or graph are allowed for besides the limit: the data file, the reference in
float64, the default's and the candidate's intermediate results, an engine's packed weights."""
TAIL_BYTES = 400


def main() -> int:
    """Serve until stdin is closed."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints must not mix with the answers
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # where it was ignored, children cannot be waited for
    requests = sys.stdin
    hello = requests.readline()
    if not hello:
        return 0
    greeting = json.loads(hello)
    providers, error = _prepare(greeting)
    _answer(answers, {"error": error})
    while line := requests.readline():
        request = json.loads(line)
        outcome = _raise_child(request | {"device": greeting["device"]}, providers)
        _answer(answers, outcome.to_json())
    return 0


def _prepare(hello: dict[str, Any]) -> tuple[list[Any], str]:
    """Import what children need. Returns the providers and what went wrong, empty when nothing did."""
    try:
        import jumar.tune.measure.worker.trial  # noqa: F401 - imports PyTorch before the first fork
        from jumar.tune.measure.worker.devices import device_of
        from jumar.tune.providers import load_provider

        for name in hello["preload"]:
            importlib.import_module(name)
        device_of(hello["device"])  # once for all children
        return [load_provider(path) for path in hello["providers"]], ""
    except Exception as error:  # noqa: BLE001 - the tuner must hear of it, whatever it is
        return [], f"{type(error).__name__}: {error}"


def _answer(answers: IO[str], message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


def _raise_child(request: dict[str, Any], providers: Sequence[Any]) -> Outcome:
    """Let a child carry the trial out, with files of its own; where there is no room for these, nothing is judged."""
    with ExitStack() as files:
        try:
            log = files.enter_context(tempfile.TemporaryFile())
            scratch = tempfile.TemporaryDirectory(prefix="jumar-trial-", ignore_cleanup_errors=True)
            folder = Path(files.enter_context(scratch))
        except OSError as error:
            return Outcome(status="busy", phase="measure", detail=f"{NO_ROOM}: {error.strerror}")
        return _in_child(request, providers, log, folder)


def _in_child(request: dict[str, Any], providers: Sequence[Any], log: IO[bytes], folder: Path) -> Outcome:
    """Fork a child for the trial, wait for it within its limits, and say what became of it."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _be_child(request, providers, writer, log.fileno(), folder)
    os.close(writer)
    try:
        lines, ending = _watch(child, reader, request["limits"]["time_s"])
    finally:
        os.close(reader)
    return _judge(lines, ending, request["limits"], _tail(log))


def _be_child(request: dict[str, Any], providers: Sequence[Any], pipe: int, log: int, folder: Path) -> None:
    """Run the trial and leave without ever returning."""
    code = 1
    try:
        become_child(log)
        from jumar.tune.measure.worker.devices import device_of
        from jumar.tune.measure.worker.trial import run_trial, size_bytes

        trial = Trial.from_json(request["trial"])
        device = device_of(request["device"])
        if device.limits_memory:
            limit_memory(request["limits"]["memory_bytes"] + COPIES_OF_WORK * size_bytes(trial.task))

        with os.fdopen(pipe, "w", encoding="utf-8") as answers:

            def on_phase(phase: Phase) -> None:
                _answer(answers, {"phase": phase})

            outcome = run_trial(trial, providers, on_phase, folder, device)
            _answer(answers, outcome.to_json())
        code = 0
    finally:
        os._exit(code)


def _watch(child: int, pipe: int, time_s: float) -> tuple[list[str], int | None]:
    """Return the child's lines and its wait status; None when it was ended for its time. Leaves no process behind."""
    deadline = time.monotonic() + time_s
    data = b""
    ending: int | None = None
    while True:
        left = deadline - time.monotonic()
        ready, _, _ = select.select([pipe, 0], [], [], max(0.0, min(left, POLL_S)))
        if pipe in ready:
            data += os.read(pipe, 1 << 16)
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            ending = status
            break
        if left <= 0 or _tuner_is_gone(ready):
            break
    if ending is None:
        os.kill(child, signal.SIGKILL)  # by itself: with a short limit it may have no group of its own yet
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)  # compilers that it left behind
    if ending is None:
        os.waitpid(child, 0)
    else:
        data += _rest(pipe)
    return data.decode("utf-8", "replace").splitlines(), ending


def _tuner_is_gone(ready: Sequence[int]) -> bool:
    """Tell whether stdin has been closed: the tuner sends nothing while it waits for an answer."""
    return 0 in ready and not os.read(0, 1)


def _rest(pipe: int) -> bytes:
    """Return what is in the pipe without waiting for stragglers that may hold its other end."""
    os.set_blocking(pipe, False)
    data = b""
    with suppress(BlockingIOError):
        while chunk := os.read(pipe, 1 << 16):
            data += chunk
    return data


def _judge(lines: Sequence[str], ending: int | None, limits: dict[str, Any], tail: str) -> Outcome:
    messages = [message for line in lines if (message := _parsed(line)) is not None]
    phase: Phase = next((message["phase"] for message in reversed(messages) if "phase" in message), "start")
    if ending is None:
        return Outcome(status="timeout", phase=phase, detail=f"it ran past its limit of {limits['time_s']:g} s")
    if messages and "status" in messages[-1]:
        return Outcome.from_json(messages[-1])
    if os.WIFSIGNALED(ending):
        number = os.WTERMSIG(ending)
        killed = ", as the kernel does when memory runs out" if number == signal.SIGKILL else ""
        how = f"it was ended by {signal.Signals(number).name}{killed}"
    else:
        how = f"it exited with code {os.WEXITSTATUS(ending)} without an answer"
    return Outcome(status="died", phase=phase, detail=f"{how}; it last wrote: {tail}" if tail else how)


def _parsed(line: str) -> dict[str, Any] | None:
    try:
        message = json.loads(line)
    except ValueError:  # cut short by a kill
        return None
    return message if isinstance(message, dict) else None


def _tail(log: IO[bytes]) -> str:
    size = log.seek(0, os.SEEK_END)
    log.seek(max(0, size - TAIL_BYTES))
    return " ".join(log.read().decode("utf-8", "replace").split())


_PR_SET_PDEATHSIG = 1
"""`prctl(2)`: a signal when the parent dies."""


def become_child(log: int) -> None:
    """Leave the parent's terminal and group, die with it, write to `log`, and leave no core file.

    Of all processes the kernel's out-of-memory killer takes this one first.
    """
    os.setsid()
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def limit_memory(size_bytes: int) -> None:
    """Let this process have `size_bytes` of writable memory more than it has.

    The limit is RLIMIT_DATA, which on Linux (4.7 and later) covers every private writable mapping and
    leaves out the mapped files of libraries; other systems apply it to the heap only.
    """
    limit = _writable_bytes() + size_bytes
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, hard))


def _writable_bytes() -> int:
    try:
        status = Path("/proc/self/status").read_text("utf-8")
    except OSError:
        return 0
    line = next((line for line in status.splitlines() if line.startswith("VmData:")), "VmData: 0 kB")
    return int(line.split()[1]) * 1024


if __name__ == "__main__":
    os._exit(main())  # taking PyTorch apart takes seconds, and nothing here needs it
