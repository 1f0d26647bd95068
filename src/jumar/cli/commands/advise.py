"""`jumar advise`: a recording or a profiler's files in, the bottlenecks out."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.base.errors import UsageError
from jumar.cli.answer import print_answer, print_document, write_page
from jumar.cli.complete import recordings, socs
from jumar.cli.main import Command
from jumar.cli.options import exit_code, force_option, json_option, report_option
from jumar.show.terminal.tell import tell

if TYPE_CHECKING:
    from jumar.advise.look import Examined
    from jumar.show.blocks.page import Section


class _FailOn(click.ParamType[str]):
    """A severity, `never`, or `slower:3%`."""

    name = "fail_on"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the text. Raises UsageError for another form."""
        known = ["advice", "warning", "error", "never"]
        if value in known or re.fullmatch(r"slower:\d+(\.\d+)?%?", value):
            return value
        raise UsageError(f'"--fail-on {value}" must be {", ".join(known)}, or slower:3% with --against.')


@click.command(cls=Command)
@click.argument("source", type=click.Path(path_type=Path), shell_complete=recordings)
@click.option(
    "--soc",
    default=None,
    metavar="SOC",
    shell_complete=socs,
    help="The NPU to advise for.  [default: the recording's, else Ascend910B1]",
)
@click.option(
    "--rank", type=int, default=None, metavar="N", help="Rank to look at.  [default: a recording's lowest, else all]"
)
@click.option(
    "--thresholds",
    type=click.Path(path_type=Path),
    default=None,
    metavar="FILE",
    help="Your own numbers for the rules about profiles (TOML).",
)
@click.option(
    "--cluster",
    default=None,
    metavar="WHERE",
    help="Read the ranks on a Ray cluster: local, or ray://HOST:PORT; its machines must see the same path.",
)
@click.option(
    "--against",
    type=click.Path(path_type=Path),
    default=None,
    metavar="BEFORE",
    help="Compare with an earlier profile.",
)
@click.option(
    "--what-if",
    multiple=True,
    metavar="QUESTION",
    help="Replay a profile with loader:free, operator:NAME:x0.5, optimizer:fused, amp or gpus:16.",
)
@click.option(
    "--measure",
    type=click.Path(path_type=Path),
    default=None,
    metavar="PYTHON",
    help="Run the pipeline of a dataset autotune report with this interpreter, which has MindSpore, and time it.",
)
@report_option
@click.option(
    "--perfetto",
    type=click.Path(path_type=Path),
    default=None,
    metavar="FILE",
    help="Write all events of all ranks for ui.perfetto.dev (.json or .json.gz).",
)
@force_option
@click.option(
    "--fail-on",
    type=_FailOn(),
    metavar="SEVERITY",
    default="error",
    show_default=True,
    help="Exit with 1 when a finding is at least advice, warning or error (or never); with --against, slower:3%.",
)
@json_option
def command(
    *,
    source: Path,
    soc: str | None,
    rank: int | None,
    thresholds: Path | None,
    cluster: str | None,
    against: Path | None,
    what_if: tuple[str, ...],
    measure: Path | None,
    report: Path | None,
    perfetto: Path | None,
    force: bool,
    fail_on: str,
    as_json: bool,
) -> int:
    """Name the bottlenecks of SOURCE: a recording, or what a profiler wrote (`jumar profile`, torch, Ascend).

    Host fallbacks, copies of non-contiguous tensors, shapes that change, casts, waits for the device and
    more, each with counts, bytes and source lines. What the recording cannot answer is listed as not checked.
    Of a report of MindSpore's dataset autotune: the settings it suggests, and with --measure whether they help.

    Example: jumar advise recording --report bottlenecks.html
    """
    from jumar.advise.datasets.report import is_pipeline

    if is_pipeline(source):
        return _dataset(source, against, measure, report, fail_on, force=force, as_json=as_json)
    if measure is not None:
        raise UsageError(f"--measure is for a report of MindSpore's dataset autotune; {source} is none. Leave it out.")
    if against is not None:
        return _compare(against, source, rank, report, fail_on, force=force, as_json=as_json)
    if what_if:
        return _what_if(source, what_if, rank, as_json=as_json)
    if fail_on.startswith("slower"):
        raise UsageError(f'"--fail-on {fail_on}" needs an earlier profile: --against BEFORE.')
    from jumar.advise.look import examine
    from jumar.show import print_page, progress
    from jumar.show.pages.advise import advise_page

    with progress() as bars:
        task = bars.add_task("Look for bottlenecks", total=None)
        found = examine(
            source,
            soc=soc,
            rank=rank,
            thresholds=thresholds,
            cluster=cluster,
            on_progress=lambda done, total: bars.update(task, completed=done, total=total),
        )
    advice, *others = found.advice
    if perfetto is not None:
        _write_trace(source, rank, perfetto, force=force)
    if report is not None:
        write_page(report, advise_page(advice, others, _pictures(found, soc)), force=force)
    findings = [finding for one in (advice, *others) for finding in one.findings]
    if as_json:
        if others:
            print_document(findings, ranks=[one.to_json() for one in (advice, *others)])
        else:
            print_answer(advice)
    else:
        more = "`--verbose` prints all of it, `--report FILE.html` shows it."
        print_page(advise_page(advice, others), more=more)
    return exit_code(findings, fail_on)


def _dataset(
    source: Path,
    before: Path | None,
    python: Path | None,
    report: Path | None,
    fail_on: str,
    *,
    force: bool,
    as_json: bool,
) -> int:
    """Print what a report of dataset autotune suggests, and what was timed."""
    from jumar.advise.datasets.measure import measure
    from jumar.advise.datasets.report import read_pipeline
    from jumar.advise.datasets.settings import judged
    from jumar.show import print_page, progress
    from jumar.show.pages.datasets import datasets_page

    pipeline, earlier = read_pipeline(source), read_pipeline(before) if before is not None else None
    outcome = None
    if python is not None:
        with progress() as bars:
            bars.add_task("Time the pipelines in turn", total=None)
            outcome = measure(pipeline, earlier, python)
    advice = judged(pipeline, earlier, outcome)
    write_page(report, datasets_page(advice), force=force)
    if as_json:
        print_document(advice.findings, **advice.to_json())
    else:
        print_page(datasets_page(advice), more="`--verbose` prints all of it, `--report FILE.html` shows it.")
    return exit_code(advice.findings, "never" if fail_on.startswith("slower") else fail_on)


def _pictures(found: Examined, soc: str | None) -> Sequence[Section]:
    """Return the pictures of the slowest rank's timeline and of all ranks; none of a recording, which has no times."""
    advice = found.advice[0]
    if not advice.parts or found.ranks is None:
        return ()
    from jumar.show import progress
    from jumar.show.pages.profile import profile_sections, ranks_section
    from jumar.timeline.reading import read_timeline, source_at

    with progress() as bars:
        bars.add_task("Draw the timeline", total=None)
        timeline = read_timeline(source_at(Path(advice.recording), advice.rank))
        together = ranks_section(found.ranks)
        return [*profile_sections(timeline, soc), *([together] if together else [])]


def _write_trace(source: Path, rank: int | None, path: Path, *, force: bool) -> None:
    """Write every rank's events as one trace."""
    from jumar.base.files import check_output, explained
    from jumar.recording.documents import is_recording
    from jumar.timeline.chrome.write import write_trace
    from jumar.timeline.reading import find_sources, read_timeline

    if is_recording(source):
        raise UsageError("--perfetto needs a profiler's files; a recording has no timeline (use `jumar profile`).")
    check_output(path, force)
    ranks = [one for one in find_sources(source) if rank is None or one.rank in (rank, None)]
    with explained(path):
        number = write_trace(path, (read_timeline(one) for one in ranks))
    tell(f"Wrote {path}: {number:,} events. Open it at ui.perfetto.dev.", err=True)


def _compare(
    before: Path, after: Path, rank: int | None, report: Path | None, fail_on: str, *, force: bool, as_json: bool
) -> int:
    """Print what changed between two profiles. Returns 1 when the step became slower by more than is allowed."""
    from jumar.advise.against import compare_timelines
    from jumar.show import print_page
    from jumar.show.pages.profiles import against_page
    from jumar.timeline.reading import read_timeline

    match = re.fullmatch(r"slower:([\d.]+)%?", fail_on)
    allowed = float(match[1]) / 100 if match else None
    comparison = compare_timelines(read_timeline(before, rank), read_timeline(after, rank))
    page = against_page(comparison, allowed)
    write_page(report, page, force=force)
    if as_json:
        print_document(**comparison.to_json())
    else:
        print_page(page, more="`--verbose` prints all of it, `--report FILE.html` shows it.")
    return int(allowed is not None and comparison.is_slower(allowed))


def _what_if(source: Path, questions: tuple[str, ...], rank: int | None, *, as_json: bool) -> int:
    """Print what a step would take under each question."""
    from jumar.advise.whatif import ask
    from jumar.timeline.reading import read_timeline

    timeline = read_timeline(source, rank)
    answers = [ask(timeline, question) for question in questions]
    if as_json:
        print_document(answers=[answer.to_json() for answer in answers])
        return 0
    for answer in answers:
        off = answer.replayed_ms / answer.step_ms - 1 if answer.step_ms else 0.0
        tell(
            f"{answer.question}: a step would take {answer.new_step_ms:,.2f} ms instead of {answer.step_ms:,.2f} "
            f"(mean of {answer.num_steps} steps; the replay of the run as it was is off by {off:+.1%})."
        )
        tell(f"  Assumes: {answer.assumes}")
    return 0
