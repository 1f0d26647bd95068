"""`jumar tune`: a recording in; policies measured faster on this machine, a bank and a result file out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.cli.bank.shared import bank_option, open_bank
from jumar.cli.main import EXIT_INTERRUPTED
from jumar.cli.options import exit_code, fail_on_option, json_option
from jumar.cli.tune_precision import precision_of, precision_options, precision_sections
from jumar.cli.tune_setting import EXIT_TERMINATED, check_report, runner_of, setting_of, setting_options, write_report
from jumar.errors import UsageError

if TYPE_CHECKING:
    from jumar.report.page import Cell, Page, Section, Table, Verdict
    from jumar.tune import TuneOptions, TuneResult
    from jumar.tune.selection import Selection
    from jumar.tune.source import Source


INTERRUPTED = {"Ctrl-C": EXIT_INTERRUPTED, "SIGTERM": EXIT_TERMINATED}


@click.command()
@click.argument("recording", type=click.Path(path_type=Path), required=False, metavar="[RECORDING|SCRIPT]")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]...")
@click.option(
    "--model-path",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Tune what torch.npu.set_aoe(DIR) described, instead of a recording.",
)
@click.option("--job-type", type=int, default=2, show_default=True, help="2 = operators, the kind built so far.")
@click.option("--time-budget", metavar="TIME", help="Stop after this time: 90s, 2m, 1h.  [default: none]")
@click.option("--trials", type=int, metavar="N", help="Measure at most N candidates.  [default: all]")
@click.option(
    "--min-gain", default="2%", show_default=True, metavar="PERCENT", help="The least gain that counts, beyond doubt."
)
@click.option(
    "--tune-ops-file",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.json",
    help='Tune these operators only: {"tune_ops_name": [...], "tune_ops_type": [...]}.  [default: all]',
)
@click.option("--device", default="cpu", show_default=True, help="The device to measure on.")
@click.option("--rank", type=int, metavar="N", help="Rank of the recording.  [default: the lowest]")
@setting_options
@precision_options
@bank_option
@fail_on_option
@json_option
def command(
    *,
    recording: Path | None,
    arguments: tuple[str, ...],
    model_path: Path | None,
    job_type: int,
    time_budget: str | None,
    trials: int | None,
    min_gain: str,
    tune_ops_file: Path | None,
    device: str,
    rank: int | None,
    aoe_config_file: Path | None,
    cluster: str | None,
    report: Path | None,
    precision: str,
    budget: str,
    metric: str,
    bank: str | None,
    fail_on: str,
    as_json: bool,
) -> int:
    """Find faster ways to compute the operators of RECORDING on this machine, and prove each.

    Every distinct operator call is rebuilt and measured under other layouts, implementations and numbers of
    threads. A policy counts only if its outputs agree and a paired measurement shows it faster beyond doubt; it
    then goes into the knowledge bank. What the bank knows is not measured again (REPEAT_TUNE=True does).
    Ctrl-C and SIGTERM keep what was found; the next run goes on from there, also after a kill or a reboot.

    A SCRIPT is run unchanged for its first step; its own options follow `--`.

    Example: jumar tune recording --time-budget 2m
    Example: jumar tune train.py --job-type 1 -- --epochs 1
    """
    from jumar.report import findings_document, json_text, print_page, progress
    from jumar.tune import this_machine, tune
    from jumar.tune.ending import ending_in_order
    from jumar.tune.selection import read_selection

    path = _source(recording, model_path)
    machine = this_machine(device)
    check_report(report)
    lowering = precision_of(precision, budget, metric)
    setting = setting_of(job_type, aoe_config_file, device)
    selection = read_selection(tune_ops_file) if tune_ops_file is not None else setting.selection()
    options = setting.applied(_options(job_type, time_budget, trials, min_gain))
    opened = open_bank(bank, create=True)
    with progress() as bars, ending_in_order(), _opened(path, arguments, job_type, selection) as source:
        task = bars.add_task("Tune operators", total=None)

        def show(done: int, total: int, what: str) -> None:
            bars.update(task, completed=done, total=total, description=f"Tune {what}" if what else "Tune operators")

        result = tune(
            source,
            bank=opened,
            result_folder=setting.environment.work_path,
            options=options,
            machine=machine,
            rank=rank,
            selection=selection,
            on_progress=show,
            conditions=setting.conditions,
            make_runner=runner_of(cluster),
            precision=lowering,
        )
    opened.close()
    if report is not None:
        write_report(report, result, _verdict(result))
    if as_json:
        click.echo(json_text(findings_document(result.findings, **result.to_json())), nl=False)
    else:
        print_page(tune_page(result), more="`--json` prints all of it, `jumar bank show KEY` one operator.")
    if result.stopped_by in INTERRUPTED:
        return INTERRUPTED[result.stopped_by]
    return exit_code(result.findings, fail_on)


@contextlib.contextmanager
def _opened(
    path: Path, arguments: tuple[str, ...], job_type: int, selection: Selection | None
) -> Iterator[Source | Path]:
    """Yield what is tuned: a script is run for its first step, anything else is opened by `tune`."""
    from jumar.tune.script import ScriptRun, is_script, script_source

    if not is_script(str(path)):
        if arguments:
            raise UsageError(f"arguments ({' '.join(arguments)}) are for a script, and {path} is none. Leave them out.")
        yield path
        return
    click.echo(f"jumar: running {path} for its first step", err=True)
    with script_source(ScriptRun(script=path, arguments=arguments), job_type, selection=selection) as source:
        yield source


def _source(recording: Path | None, model_path: Path | None) -> Path:
    source = recording or model_path
    if source is None or (recording and model_path):
        raise UsageError("jumar tune must be given a RECORDING or --model-path DIR, and one of them only.")
    return source


def _options(job_type: int, time_budget: str | None, trials: int | None, min_gain: str) -> TuneOptions:
    from jumar.tune import TuneOptions
    from jumar.tune.options import parse_duration_s, parse_percent

    return TuneOptions(
        job_type=job_type,
        time_budget_s=None if time_budget is None else parse_duration_s(time_budget, "--time-budget"),
        max_trials=trials,
        min_gain=parse_percent(min_gain, "--min-gain"),
    )


def tune_page(result: TuneResult) -> Page:
    """Return what a run found as a page: the answer, the policies with their intervals, what went wrong."""
    from jumar.report.page import FindingList, KeyValues, Page, Section
    from jumar.tune.rules import RULES

    others = [finding for finding in result.findings if finding.code != "JM501"]
    sections = [Section(title="Policies", blocks=[_policies(result)])] if _rows(result) else []
    sections += precision_sections(result)
    if others:
        titles = {rule.code: rule.summary for rule in RULES}
        sections.append(Section(title="Findings", blocks=[FindingList(findings=others, titles=titles)]))
    sections.append(_not_tuned(result))
    facts: list[tuple[str, Cell]] = [
        ("Measured on", str(result.machine)),
        ("Recording", f"{result.recording} ({result.recorded_device})"),
        ("Load of the machine at the start", result.load_average),
        ("Providers", ", ".join(result.providers)),
        ("Bank", result.bank),
        ("Result file", str(result.result_file)),
        *(("Job file", note) for note in result.notes),
    ]
    sections.append(Section(title="How it was made", blocks=[KeyValues(items=facts)]))
    return Page(title="Tuning", verdict=_verdict(result), actions=[], sections=sections)


def _verdict(result: TuneResult) -> Verdict:
    from jumar.report.page import Verdict

    num_faster = len({row[0] for row in _rows(result)})
    num_done = sum(1 for task in result.tasks if task.slots or task.failure)
    of_all = f"{result.num_tasks} operators" if not result.stopped_by else f"{num_done} operators tuned so far"
    if not result.num_tasks:
        headline = "The recording has no operator that can be tuned."
    elif not num_done:
        headline = f"None of {result.num_tasks} operators was tuned before the run was stopped."
    elif num_faster:
        have = "has" if num_faster == 1 else "have"
        headline = f"{num_faster} of {of_all} {have} a policy that is faster on this {result.machine.device}."
    else:
        headline = f"None of {of_all} has a policy that is faster by {result.min_gain * 100:g} % or more."
    counters, num_open = result.counters(), result.num_not_judged()
    details = [
        f"{counters.add} added to the bank, {counters.update} updated, {counters.reserved} kept, "
        f"{counters.unsatisfied - num_open} without a faster policy, {num_open} not judged; "
        f"{result.num_trials} candidates measured in {result.wall_s:.0f} s.",
    ]
    if result.recorded_device != result.machine.device:
        details.append(
            f"The recording is of {result.recorded_device}: what was measured on this {result.machine.device} says "
            "nothing about that device."
        )
    if result.stopped_by:
        details.append(
            f"Stopped by {result.stopped_by} after {num_done} of {result.num_tasks} operators; "
            "the same command goes on from there."
        )
    attention = bool(result.failed()) or bool(result.stopped_by)
    return Verdict(status="attention" if attention else "fine", headline=headline, details=details)


def _rows(result: TuneResult) -> list[list[Cell]]:
    rows: list[list[Cell]] = []
    for task in result.tasks:
        for slot in task.slots:
            if slot.policy is None or slot.gain is None:
                continue
            gain = slot.gain
            low, high = ((bound - 1) * 100 for bound in (gain.ratio_low, gain.ratio_high))
            interval = f"{low:+.1f} to {high:+.1f}"
            numbers: list[Cell] = [gain.before_us, gain.after_us, (gain.ratio - 1) * 100, interval, gain.num_pairs]
            rows.append([task.use.name, f"{slot.kind} {slot.policy}", *numbers, slot.action])
    return rows


def _policies(result: TuneResult) -> Table:
    from jumar.report.page import Column, Table

    columns = [
        Column(title="Operator", code=True),
        Column(title="Policy", code=True),
        Column(title="Before", unit="us", number=True),
        Column(title="After", unit="us", number=True),
        Column(title="Faster", unit="%", number=True),
        Column(title="95 % interval", unit="%"),
        Column(title="Pairs", number=True),
        Column(title="Bank"),
    ]
    return Table(columns=columns, rows=_rows(result))


def _not_tuned(result: TuneResult) -> Section:
    from jumar.report.page import Column, Section, Table

    columns = [
        Column(title="Operator", code=True),
        Column(title="Calls", number=True),
        Column(title="Host time", unit="us", number=True),
        Column(title="Why"),
    ]
    rows: list[list[Cell]] = [[one.operator, one.num_calls, one.recorded_us, one.reason] for one in result.not_tuned]
    return Section(title="Not tuned", blocks=[Table(columns=columns, rows=rows)], collapsed=True)
