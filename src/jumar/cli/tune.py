"""`jumar tune`: a model, a script or a recording in; what is faster on this machine, a bank and a result file out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.cli.bank.shared import bank_option, open_bank
from jumar.cli.main import EXIT_INTERRUPTED
from jumar.cli.options import exit_code, fail_on_option, json_option
from jumar.cli.tune_model import check_output, check_single, model_options, opened_model, space_of, write_artefact
from jumar.cli.tune_page import tune_page, verdict
from jumar.cli.tune_precision import precision_of, precision_options
from jumar.cli.tune_setting import EXIT_TERMINATED, check_report, runner_of, setting_of, setting_options, write_report
from jumar.errors import UsageError

if TYPE_CHECKING:
    from jumar.tune import TuneOptions
    from jumar.tune.selection import Selection
    from jumar.tune.source import Source


INTERRUPTED = {"Ctrl-C": EXIT_INTERRUPTED, "SIGTERM": EXIT_TERMINATED}


@click.command()
@click.argument("recording", type=click.Path(path_type=Path), required=False, metavar="[MODEL|SCRIPT|RECORDING]")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[-- ARGS]...")
@click.option(
    "--model-path",
    type=click.Path(path_type=Path, file_okay=False),
    metavar="DIR",
    help="Tune what torch.npu.set_aoe(DIR) described, instead of a recording.",
)
@click.option(
    "--job-type", type=int, default=2, show_default=True, help="1 = subgraphs: whole graphs; 2 = operators, one by one."
)
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
@model_options
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
    input_shape: str,
    output: Path | None,
    fdeeper_opat: bool,
    fnonhomo_split: bool,
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
    """Find faster ways to compute a model on this machine, and prove each.

    MODEL is an .onnx file, a torch.export .pt2 file, or module:callable, which returns a model, or (model, inputs).
    Job type 1 gives its whole graph to the engine, or the engines, that compute it fastest, with the best number of
    threads, pieces of the batch and memory; job type 2 tunes each distinct operator call. A policy counts only if
    its outputs agree and a paired measurement shows it faster beyond doubt; it then goes into the knowledge bank,
    where torch.compile(model, backend="jumar") finds it. A model that is not faster is left as it was.
    What the bank knows is not measured again (REPEAT_TUNE=True does). Ctrl-C and SIGTERM keep what was found; the
    next run goes on from there, also after a kill or a reboot.

    A SCRIPT is run unchanged for its first step; its own options follow `--`. Of a RECORDING the operators are tuned.

    Example: jumar tune models:resnet50 --job-type 1 --time-budget 10m --output resnet50.jumar

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
    check_output(output, job_type)
    lowering = precision_of(precision, budget, metric)
    make_runner = runner_of(cluster)
    setting = setting_of(job_type, aoe_config_file, device)
    selection = read_selection(tune_ops_file) if tune_ops_file is not None else setting.selection()
    options = setting.applied(_options(job_type, time_budget, trials, min_gain))
    opened = open_bank(bank, create=True)
    with progress() as bars, ending_in_order(), _opened(path, arguments, job_type, selection, input_shape) as source:
        check_single(output, source)
        name = "graphs" if options.job_type == 1 else "operators"
        task = bars.add_task(f"Tune {name}", total=None)

        def show(done: int, total: int, what: str) -> None:
            bars.update(task, completed=done, total=total, description=f"Tune {what or name}")

        result = tune(
            source,
            bank=opened,
            result_folder=setting.environment.work_path,
            options=options,
            machine=machine,
            rank=rank,
            selection=selection,
            on_progress=show,
            conditions=setting.conditions_for(source),
            space=space_of(setting.config, is_deep=fdeeper_opat, is_uneven=fnonhomo_split),
            make_runner=make_runner,
            precision=lowering,
        )
        if output is not None:
            write_artefact(output, source, result, machine)
    opened.close()
    if report is not None:
        write_report(report, result, verdict(result))
    if as_json:
        click.echo(json_text(findings_document(result.findings, **result.to_json())), nl=False)
    else:
        print_page(tune_page(result), more="`--json` prints all of it, `jumar bank show KEY` one operator.")
    if result.stopped_by in INTERRUPTED:
        return INTERRUPTED[result.stopped_by]
    return exit_code(result.findings, fail_on)


@contextlib.contextmanager
def _opened(
    path: Path, arguments: tuple[str, ...], job_type: int, selection: Selection | None, input_shape: str
) -> Iterator[Source | Path]:
    """Yield what is tuned: a script is run for its first step, a model captured, a recording opened by `tune`."""
    from jumar.tune.graph.source import is_graph_source
    from jumar.tune.script import ScriptRun, is_script, script_source

    is_model = is_graph_source(str(path)) and not path.is_dir()
    if input_shape and not is_model:
        raise UsageError(f"--input-shape is for a model, and {path} is none. Leave it out.")
    if is_model and not arguments:
        with opened_model(str(path), input_shape, selection) as source:
            yield source
        return
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
        raise UsageError(
            "jumar tune must be given a MODEL, a SCRIPT, a RECORDING or --model-path DIR, and one of them only."
        )
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
