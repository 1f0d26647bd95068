"""`jumar compare`: two recordings in, the first operator that differs out."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jumar.base.errors import UsageError
from jumar.base.files import write_text
from jumar.cli.answer import print_document, write_page
from jumar.cli.complete import recordings
from jumar.cli.help import more_option
from jumar.cli.main import Command
from jumar.cli.options import (
    exit_code,
    fail_on_option,
    force_option,
    json_option,
    parse_rank_pairs,
    parse_steps,
    report_option,
)
from jumar.show.terminal.tell import tell

if TYPE_CHECKING:
    from jumar.comparison import CompareOptions, Comparison
    from jumar.comparison.diagnosis import Diagnosis, SecondPass
    from jumar.comparison.verdict.checkpoints import ParameterPair
    from jumar.recording import RecordingLike


@click.command(cls=Command)
@click.argument("reference", type=click.Path(path_type=Path), shell_complete=recordings)
@click.argument("target", type=click.Path(path_type=Path), shell_complete=recordings)
@click.option("--steps", metavar="START:END", help="Steps to compare, END left out.  [default: all common ones]")
@click.option("--all-steps", is_flag=True, help="Go on after the step with the first divergence.")
@more_option(
    "--offset",
    type=int,
    metavar="N",
    help="Step n of the reference is step n+N of the target.  [default: found by the losses]",
)
@more_option(
    "--ranks",
    metavar="PAIRS",
    help="Ranks to compare: 0:0,1:2 is the reference's 0 and 1 with the target's 0 and 2. With one recording given "
    "twice, ranks that must agree: 0:1.  [default: equal ranks]",
)
@more_option(
    "--rename",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Names that differ between the programs, `blocks.* -> layers.*` a line.  [default: found by structure]",
)
@more_option(
    "--floor",
    "floors",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="RECORDING",
    help="A further recording of the reference, made with `jumar record --vary`: measures the noise floor. May be "
    "given again.  [default: the floor is estimated from dtypes and operators]",
)
@more_option(
    "--tolerance", type=float, default=1.0, show_default=True, metavar="FACTOR", help="Factor on every tolerance."
)
@click.option(
    "--suspects",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.json",
    help="Write which calls are worth recording whole: the first divergence, what it reads, its neighbours. For "
    "`jumar record --tensors-of`.",
)
@more_option(
    "--write-renames",
    "renames_out",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Of two checkpoints: write which names belong together, with candidates for those without a partner, to be "
    "edited and given to --rename.",
)
@report_option
@force_option
@fail_on_option
@json_option
def command(*, reference: Path, target: Path, report: Path | None, force: bool, fail_on: str, **given: Any) -> int:
    """Name the first operator that differs between two recordings of one program.

    REFERENCE and TARGET are folders that `jumar record` wrote, of two devices, machines, versions or frameworks
    (MindSpore), dumps of other tools, or checkpoints. Settings, data, parameters and random numbers are compared
    first, then operators in the order of execution. The exit code is 0 when the runs agree and 1 when they do not or
    cannot be compared.

    \b
    Two passes find most causes. First, on each device, cheap:
        jumar record -o ref --device cuda --steps 0:3 train.py
        jumar record -o npu --device npu  --steps 0:3 train.py
        jumar compare ref npu --suspects suspects.json
    Then whole tensors, of the suspects alone:
        jumar record -o ref2 --device cuda --steps 0:1 --tensors-of suspects.json train.py
        jumar record -o npu2 --device npu  --steps 0:1 --tensors-of suspects.json train.py
        jumar compare ref2 npu2 --report accuracy.html
    """
    from jumar.comparison import compare
    from jumar.comparison.diagnosis import diagnose
    from jumar.recording.foreign.recognise import opened
    from jumar.show.terminal.length import whole_pages
    from jumar.show.terminal.progress_bars import progress

    options = _options(given)
    recordings = (opened(reference), opened(target))
    with progress() as bars:
        task = bars.add_task("Compare", total=None)
        comparison = compare(
            *recordings,
            floors=given["floors"],
            options=options,
            on_progress=lambda done, total: bars.update(task, completed=done, total=total),
        )
        diagnosis = diagnose(comparison, *recordings, options)
    comparison = replace(comparison, findings=(*comparison.findings, *diagnosis.findings))
    second = _second_pass(comparison, diagnosis, given["suspects"])
    page = None
    if report is not None or whole_pages.get():
        from jumar.comparison.diagnosis.second_pass import replayed_suspects
        from jumar.show.compare.page import compare_page

        replayed = replayed_suspects(diagnosis, *recordings)
        page = compare_page(
            comparison, diagnosis=diagnosis, recordings=recordings, replayed=replayed, second_pass=second
        )
        if report is not None:
            write_page(report, page, force=force)
    table = _parameters(comparison, *recordings, given["renames_out"], force=force)
    if given["as_json"]:
        body = {name: value for name, value in comparison.to_json().items() if name != "findings"}
        if table is not None:
            from jumar.comparison.verdict.checkpoints import table_json

            body["parameters"] = table_json(table)
        print_document(comparison.findings, **body, diagnosis=diagnosis.to_json())
    elif table is not None:
        from jumar.show.compare.checkpoints import checkpoints_text

        click.echo(checkpoints_text(comparison, table))
    elif page is not None and whole_pages.get():
        from jumar.show import print_page

        print_page(page)
    else:
        from jumar.show.compare.summary import summary_text

        click.echo(summary_text(comparison, diagnosis, second))
    return exit_code(comparison.findings, fail_on)


def _parameters(
    comparison: Comparison, reference: RecordingLike, target: RecordingLike, out: Path | None, *, force: bool
) -> list[ParameterPair] | None:
    """Return the parameters of two checkpoints side by side, and write their names where asked; None for others."""
    if not reference.info.environment.get("format") == target.info.environment.get("format") == "checkpoint":
        if out is not None:
            raise UsageError("--write-renames is for two checkpoints, and these are none. Leave it out.")
        return None
    from jumar.comparison.verdict.checkpoints import parameter_table, proposed_renames

    table = parameter_table(comparison, reference, target)
    if out is not None:
        if out.exists() and not force:
            raise UsageError(f"{out} is there already. Replace it with --force, or choose another name.")
        write_text(out, proposed_renames(comparison, table))
        tell(f"Wrote {out}.", err=True)
    return table


def _options(given: dict[str, Any]) -> CompareOptions:
    from jumar.comparison import CompareOptions
    from jumar.comparison.model.renames import read_renames

    return CompareOptions(
        tolerance_scale=given["tolerance"],
        steps=parse_steps(given["steps"]),
        all_steps=given["all_steps"],
        renames=read_renames(given["rename"]) if given["rename"] is not None else None,
        offset=given["offset"],
        rank_pairs=parse_rank_pairs(given["ranks"]),
    )


def _second_pass(comparison: Comparison, diagnosis: Diagnosis, suspects: Path | None) -> SecondPass | None:
    """Write the file of suspects where one is asked for, and return the commands that record them."""
    if suspects is not None:
        from jumar.comparison.diagnosis import write_suspects

        write_suspects(suspects, diagnosis.suspects)
        tell(f"Wrote {suspects}.", err=True)
    if comparison.evidence == "tensors" or not diagnosis.suspects:
        return None
    from jumar.comparison.diagnosis.second_pass import second_pass

    file = "" if suspects is None else str(suspects)
    return second_pass(comparison.reference, comparison.target, diagnosis.suspects, file)
