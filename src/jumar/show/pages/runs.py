"""What `jumar run` and `jumar record` print on stderr in addition to the script's own output."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from jumar.base.text import counted, listing, size_text
from jumar.show.commands import shell_line
from jumar.show.terminal.tell import tell

if TYPE_CHECKING:
    from jumar.capture.process.program import Program
    from jumar.npu.profiler.summary import Summary
    from jumar.recording import Recording, RunEnd

_CUDA_ERROR = re.compile(r"\bcuda|\bnvidia|\bnccl", re.IGNORECASE)
_CUDA_FRAME = re.compile(r"torch/cuda/")
_CUDA_WORD = re.compile(r"torch\.cuda|\.cuda\(|[\"']cuda\b")
_NPU_WORD = re.compile(r"\bnpu\b|torch_npu|torch\.accelerator")
MAX_SENTENCES = 3
MAX_OPERATORS = 4
WIDTH = 13


def tell_summary(summary: Summary) -> None:
    """Print the summary of a run on the emulated NPU: one line a subject."""
    tell(f"jumar: {counted(summary.num_steps, 'step')} on an emulated {summary.soc}", bold=True, err=True)
    for title, text in lines(summary):
        tell(f"  {title:<{WIDTH}}{text}", err=True)


def lines(summary: Summary) -> Iterator[tuple[str, str]]:
    """Yield title and text of each line; a title that is empty continues the one above."""
    for device in summary.memory:
        yield (
            f"npu:{device.index}",
            f"at most {size_text(device.allocated_bytes)} allocated, {size_text(device.reserved_bytes)} reserved, of "
            f"{size_text(device.capacity_bytes)}",
        )
    counts = summary.counts
    yield "operators", f"{counts.num_executions:,} run{_on_host(summary)}"
    if counts.num_transdata:
        most = max(counts.transdata_by_operator.items(), key=lambda item: item[1])
        yield (
            "conversions",
            f"{counts.num_transdata:,} TransData, {size_text(counts.transdata_bytes)}; "
            f"{most[1]:,} of them for {most[0]}",
        )
    if counts.num_compiles:
        first = counts.steps[0].num_compiles
        yield "compiles", f"{first:,} in the first step, {counts.num_compiles - first:,} after it"
    for number, sentence in enumerate(summary.recompiling[:MAX_SENTENCES]):
        yield "" if number or counts.num_compiles else "compiles", sentence
    if summary.step_us is not None:
        assumed = f", with {counted(len(summary.assumed), 'assumed figure')} of the chip" if summary.assumed else ""
        yield "estimate", f"{summary.step_us / 1e3:,.2f} ms a step: a model's figure, not a measurement{assumed}"


def _on_host(summary: Summary) -> str:
    if not summary.host_operators:
        return ", all on the device"
    names = [f"{name} ({number:,})" for name, number in summary.host_operators.items()]
    return f"; on the host, without an NPU kernel: {listing(names, MAX_OPERATORS)}"


class StepProgress:
    """Shows the recorded steps on a terminal: the first ones each, then one line now and then."""

    EACH = 5
    EVERY_S = 5.0

    def __init__(self, chosen: tuple[int, int] | None, done: str = "recorded") -> None:
        self._chosen, self._done = chosen, done
        self._started = self._said = monotonic()
        self._num_steps = 0

    def on_step(self, step: int) -> None:
        """Tell of a recorded step; the script's own output stays as it is."""
        self._num_steps += 1
        now = monotonic()
        if not sys.stderr.isatty() or (self._num_steps > self.EACH and now - self._said < self.EVERY_S):
            return
        self._said = now
        tell(f"jumar: step {step} {self._done}{self._how_far(now - self._started)}", err=True)

    def _how_far(self, elapsed_s: float) -> str:
        if self._chosen is None:
            return f", {self._num_steps} so far" if self._num_steps > 1 else ""
        wanted = self._chosen[1] - self._chosen[0]
        left_s = elapsed_s / self._num_steps * (wanted - self._num_steps)
        return f", {self._num_steps} of {wanted}" + (f", about {left_s:.0f} s to go" if left_s >= 1 else "")


def tell_recorded(out: Path, script: str, end: RunEnd, *, for_tuning: bool) -> None:
    """Print how the script ended, what the recording holds, and what to do with it."""
    from jumar.recording import Recording

    recording = Recording.open(out)
    how = {
        "raised": f"{script} raised {_raised(end.error) if end.error else 'an error'}",
        "exited": f"{script} exited with code {end.exit_code}",
        "interrupted": "stopped with Ctrl-C",
        "stopped": f"ended {script} after {end.num_steps} steps",
    }.get(end.status, f"{script} finished")
    budgeted = [step for rank in recording.ranks for step in recording.steps(rank) if _left_out(recording, step, rank)]
    num_rows = sum(recording.num_rows(step, rank) for rank in recording.ranks for step in recording.steps(rank))
    num_steps = len({step for rank in recording.ranks for step in recording.steps(rank)})
    ranks = f" of {len(recording.ranks)} ranks" if len(recording.ranks) > 1 else ""
    size = size_text(sum(path.stat().st_size for path in out.rglob("*") if path.is_file()))
    recorded = f"{counted(num_steps, 'step')}{ranks}, {counted(num_rows, 'row')}, {size}"
    tell(f"jumar: {how}; recorded {recorded}: {out}", err=True)
    for sentence in end.not_covered:
        tell(f"jumar: not covered: {sentence}", err=True)
    if budgeted:
        tell(
            f"jumar: because of the budget {counted(len(budgeted), 'step')} lack rows or values; step_info lists them",
            err=True,
        )
    if num_rows and for_tuning:
        tell(f"jumar: next, tune its operators: jumar tune {out}", err=True)
    elif num_rows:
        tell(f"jumar: next, compare with another recording: jumar compare REFERENCE {out}", err=True)
    elif not asks_for_cuda(end):
        tell("jumar: no step was completed: nothing to compare. See jumar docs guide-record on steps.", err=True)


def tell_cuda(program: Program, end: RunEnd, *, used_npu: bool) -> None:
    """Print what to do with a script for CUDA that a run with an NPU ended, or that ran beside the NPU."""
    from jumar.capture.process.processes import must_be_started

    script = program.entries[0] if program.entries else Path(program.name)
    in_others = must_be_started(program)  # what they used, this process does not know
    if asks_for_cuda(end):
        what = f"{script} asks for CUDA, and this run has another device"
    elif in_others and end.exit_code and is_cuda_script(script):
        what = f"{script} is a script for CUDA, and this run has another device"
    elif not used_npu and not in_others and end.status != "raised" and is_cuda_script(script):
        what = f"{script} is a script for CUDA: nothing of it ran on the NPU"
    else:
        return
    given = [str(script), "--", *program.arguments] if program.kind == "script" and program.arguments else program.shown
    tell(
        f"jumar: {what}. Take it to the NPU: {shell_line(['jumar', 'port', *given])}\n"
        f"jumar: or record it as it is: "
        f"{shell_line(['jumar', 'record', '-o', 'reference', '--device', 'cuda', *program.shown])}\n"
        "jumar: or map its CUDA calls: put `from torch_npu.contrib import transfer_to_npu` after its `import torch`",
        err=True,
    )


def tell_launcher(program: Program, words: Sequence[str], end: RunEnd) -> None:
    """Print the command line that starts a script which asks for a launcher's variables; `words` come before it."""
    from jumar.capture.process.program import by_torchrun, missing_rank

    variable = "" if program.launcher else missing_rank(end.error)
    if variable:
        tell(
            f"jumar: the script reads {variable}, which a launcher sets for each process. Start it with one: "
            f"{shell_line([*words, *by_torchrun(program)])}",
            err=True,
        )


def asks_for_cuda(end: RunEnd) -> bool:
    """Tell whether a run ended because there is no CUDA: by what the error says, or where PyTorch raised it."""
    if end.status != "raised" or not end.error:
        return False
    return bool(_CUDA_ERROR.search(_raised(end.error)) or _CUDA_FRAME.search(end.error.rpartition('  File "')[2]))


def is_cuda_script(script: Path) -> bool:
    """Tell whether a script's text names CUDA and no NPU."""
    try:
        text = script.read_text("utf-8", errors="replace")
    except OSError:
        return False
    return bool(_CUDA_WORD.search(text)) and not _NPU_WORD.search(text)


def _raised(trace: str) -> str:
    """Return the line of a traceback that names the error: the first after the last frame."""
    lines = trace.strip().splitlines()
    last_frame = max((number for number, line in enumerate(lines) if line.startswith('  File "')), default=-1)
    return next((line for line in lines[last_frame + 1 :] if not line.startswith(" ")), lines[-1])


def _left_out(recording: Recording, step: int, rank: int) -> bool:
    return bool(recording.step_info(step, rank).not_kept)
