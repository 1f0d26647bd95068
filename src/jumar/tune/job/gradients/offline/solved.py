"""Job type 4 on a recording: the split is solved by the model, and nothing is measured but the link.

No module here needs PyTorch, so that recordings of MindSpore are tuned where it runs. Only measuring the link does.
"""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from jumar.base.errors import InputError, UsageError
from jumar.base.text import counted, size_text
from jumar.recording import CallRow, Recording
from jumar.tune.job.gradients.messages import GradientOptions
from jumar.tune.job.gradients.offline.profiled import Profiled, read_profile
from jumar.tune.job.gradients.offline.recorded import Times, recorded_gradients
from jumar.tune.search.gradients.forms import FILE_NAME, forms_of, in_parameter_order, write_gradient_fusion
from jumar.tune.search.gradients.model import Link, fit_link
from jumar.tune.search.gradients.outcome import GradientResult
from jumar.tune.search.gradients.solve import solve
from jumar.tune.search.gradients.splits import compared, ddp_default, evaluated, one_bucket

PROCESSES = 2
"""Processes between which the link of a recording is measured, where nothing else is asked for."""


def tune_recording(
    path: Path, *, result_folder: Path, options: GradientOptions, rank: int | None = None, times: Path | None = None
) -> GradientResult:
    """Split the gradients of a recording; `times` is a profile of MindSpore that has their ready times.

    Raises InputError for a recording without gradients or a profile without times, UsageError where the two do not
    belong together, RecordingError, OutputError.
    """
    began = time.monotonic()
    recording = Recording.open(path)
    is_mindspore = recording.info.framework == "mindspore"
    if times is not None and not is_mindspore:
        raise UsageError(f"--times is for a recording of MindSpore; {path} is of {recording.info.framework}.")
    profiled = None if times is None else read_profile(times, _classes(recording), rank)
    found = recorded_gradients(recording, rank, None if profiled is None else _times_of(profiled))
    gradients = in_parameter_order(found.gradients) if is_mindspore else found.gradients
    link, source = _link(options, profiled, sum(one.size_bytes for one in gradients))
    split = solve(gradients, link, options.bounds)
    file = result_folder / f"{recording.info.soc or recording.info.device.partition(' ')[0] or 'cpu'}_{FILE_NAME}"
    write_gradient_fusion(file, gradients)
    return GradientResult(
        source=str(path), gradients=gradients, link=link, link_source=source,
        own=evaluated(gradients, link, one_bucket(gradients) if is_mindspore else ddp_default(gradients)),
        split=split, others=compared(gradients, link)[: 2 if is_mindspore else None],
        forms=forms_of(gradients, link, split, options.bounds), status="solved", min_gain=options.min_gain,
        fusion_file=file, wall_s=time.monotonic() - began, framework="mindspore" if is_mindspore else "torch",
        times_source=_told(profiled, found.num_untimed, len(gradients)) if is_mindspore else "",
    )  # fmt: skip


def _classes(recording: Recording) -> set[str]:
    """Return the classes of the layers that own parameters."""
    rank = recording.ranks[0]
    steps = recording.steps(rank)
    return {row.module_type for row in (recording.rows(steps[-1], rank) if steps else ()) if row.kind == "parameter"}


def _times_of(profiled: Profiled) -> Times:
    def times(rows: Sequence[CallRow], parameters: Mapping[str, CallRow]) -> Mapping[str, float]:
        owners = {row.module_path for row in parameters.values()}
        calls = [row for row in rows if (row.kind, row.phase) == ("module", "backward") and row.module_path in owners]
        layers = [(row.module_type, row.module_path) for row in sorted(calls, key=lambda row: row.start_us)]
        ready = profiled.ready_us(layers)
        return {name: ready[row.module_path] for name, row in parameters.items() if row.module_path in ready}

    return times


def _link(options: GradientOptions, profiled: Profiled | None, total_bytes: int) -> tuple[Link, str]:
    """Return the link, and where it comes from: given, of the profile's all-reduces, else measured here."""
    if options.link is not None:
        return options.link, "given"
    samples = [] if profiled is None else profiled.samples(total_bytes)
    if len(samples) > 1:
        return fit_link(samples), f"of {counted(sum(len(times) for _, times in samples), 'all-reduce')} of the profile"
    if samples:
        raise InputError(_one_size(*samples[0]))
    if importlib.util.find_spec("torch") is None:
        raise InputError(
            "the all-reduce between processes is measured by PyTorch, which is not installed here. Say what it takes "
            "on your machines, latency and bandwidth: --allreduce 200us,10GB/s."
        )
    from jumar.tune.job.gradients.trial import measure_link

    processes = options.num_processes or PROCESSES
    return measure_link(processes, total_bytes), f"measured between {processes} processes of this machine, by gloo"


def _one_size(size_bytes: int, times: Sequence[float]) -> str:
    rate = size_bytes / min(times) / 1e9
    return (
        f"the profile has all-reduces of one size ({size_text(size_bytes)} in {min(times) * 1e3:.3g} ms), which do not "
        f"tell what a small one takes. Say it, such as --allreduce 50us,{rate:.3g}GB/s."
    )


def _told(profiled: Profiled | None, num_untimed: int, num_gradients: int) -> str:
    """Return in words where the ready times of a MindSpore recording come from, and what they are worth."""
    if profiled is None:
        text = (
            "The ready times are estimates: when MindSpore's PyNative mode issued each layer's backward pass while it "
            "was recorded, and not when a graph on an NPU computes it. --times PROFILE takes them from a profile."
        )
    else:
        where = "" if profiled.device == "npu" else ", on the host and not on an NPU"
        text = f"The ready times are those of {counted(profiled.num_steps, 'step')} of {profiled.path}{where}."
    if num_untimed:
        text += (
            f" {num_untimed} of {num_gradients} gradients have no time of their own and count as ready with the "
            "parameter before them."
        )
    return text
