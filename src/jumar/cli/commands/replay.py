"""`jumar replay`: recorded operators again, from their recorded inputs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from jumar.cli.answer import print_document, write_page
from jumar.cli.complete import recordings, socs
from jumar.cli.main import Command
from jumar.cli.options import exit_code, fail_on_option, force_option, json_option, parse_steps, report_option

if TYPE_CHECKING:
    from jumar.base.findings import Finding
    from jumar.comparison.replay import Replayed

On = Literal["cpu64", "cpu", "npu", "cuda"]


@click.command(cls=Command)
@click.argument("recording", type=click.Path(path_type=Path), shell_complete=recordings)
@click.argument("reference", type=click.Path(path_type=Path), required=False, shell_complete=recordings)
@click.option(
    "--on",
    type=click.Choice(["cpu64", "cpu", "npu", "cuda"]),
    default="cpu64",
    show_default=True,
    help="Device to run the operators on, in addition to the CPU in float64. cpu64: no other; npu: emulated without "
    "torch_npu.",
)
@click.option(
    "--ops",
    multiple=True,
    metavar="PATTERN",
    help="Operators to replay: a name (aten::addmm), a row key, or a glob over these; may be repeated.  [default: all]",
)
@click.option(
    "--soc",
    default="",
    metavar="SOC",
    shell_complete=socs,
    help="Chip of the emulated NPU.  [default: the recorded one]",
)
@click.option("--steps", metavar="START:END", help="Steps to replay, END left out.  [default: all]")
@click.option("--top", type=click.IntRange(1), default=8, show_default=True, metavar="N", help="Operators to list.")
@report_option
@force_option
@fail_on_option
@json_option
def command(
    *,
    recording: Path,
    reference: Path | None,
    on: On,
    ops: tuple[str, ...],
    soc: str,
    steps: str | None,
    top: int,
    report: Path | None,
    force: bool,
    fail_on: str,
    as_json: bool,
) -> int:
    """Execute the operators of RECORDING again from their recorded inputs, in float64 on the CPU.

    This separates an operator's own error from the error of its inputs, without a second device. With REFERENCE, a
    recording of the same program elsewhere, each operator has three numbers: its own error, the reference's own
    error, and the inherited one. The recordings need whole tensors (--values tensors, or --tensors-of for some).
    The exit code is 1 when an operator has an error of its own.

    Example: jumar replay npu-recording gpu-recording --ops 'aten::*mm*'
    """
    from jumar.comparison.replay import replay
    from jumar.comparison.replay.findings import find
    from jumar.show import progress

    with progress() as bars:
        task = bars.add_task("Replay", total=None)
        replayed = replay(
            recording,
            ops or None,
            on,
            reference=reference,
            steps=parse_steps(steps),
            soc=soc,
            on_progress=lambda done, total: bars.update(task, completed=done, total=total),
        )
    findings = find(replayed)
    if report is not None:
        from jumar.show.compare.replay_page import replay_page

        write_page(report, replay_page(replayed, findings), force=force)
    _show(replayed, findings, top, as_json)
    return exit_code(findings, fail_on)


def _show(replayed: list[Replayed], findings: list[Finding], top: int, as_json: bool) -> None:
    from jumar.comparison.replay.findings import ranked
    from jumar.show.compare.replay import headline, summary_text

    if not as_json:
        click.echo(summary_text(replayed, top))
        return
    operators = [row.to_json() for row in ranked(replayed)]
    print_document(findings, headline=headline(replayed), operators=operators)
