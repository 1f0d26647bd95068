"""`jumar advise`: a recording in, its bottlenecks out."""

from __future__ import annotations

from pathlib import Path

import click

from jumar.cli.answer import print_answer, write_page
from jumar.cli.options import exit_code, fail_on_option, force_option, json_option, report_option


@click.command()
@click.argument("recording", type=click.Path(path_type=Path))
@click.option(
    "--soc", default=None, metavar="SOC", help="The NPU to advise for.  [default: the recording's, else Ascend910B1]"
)
@click.option("--rank", type=int, default=None, metavar="N", help="Rank to look at.  [default: the lowest]")
@report_option
@force_option
@fail_on_option
@json_option
def command(
    *, recording: Path, soc: str | None, rank: int | None, report: Path | None, force: bool, fail_on: str, as_json: bool
) -> int:
    """Name the bottlenecks of RECORDING, a folder that `jumar record` wrote.

    Host fallbacks, copies of non-contiguous tensors, shapes that change, casts, waits for the device and
    more, each with counts, bytes and source lines. What the recording cannot answer is listed as not checked.

    Example: jumar advise recording --report bottlenecks.html
    """
    from jumar.advise.bottlenecks import advise
    from jumar.show import print_page, progress
    from jumar.show.pages.advise import advise_page

    with progress() as bars:
        task = bars.add_task("Look for bottlenecks", total=None)
        advice = advise(
            recording,
            soc=soc,
            rank=rank,
            on_progress=lambda done, total: bars.update(task, completed=done, total=total),
        )
    page = advise_page(advice)
    write_page(report, page, force=force)
    if as_json:
        print_answer(advice)
    else:
        print_page(page, more="`--json` prints all of it, `--report FILE.html` shows it.")
    return exit_code(advice.findings, fail_on)
