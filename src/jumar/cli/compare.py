"""`jumar compare`: two recordings in, the first operator that differs out."""

from __future__ import annotations

from pathlib import Path

import click

from jumar.cli.options import exit_code, fail_on_option, force_option, json_option, parse_steps


@click.command()
@click.argument("reference", type=click.Path(path_type=Path))
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--steps", metavar="START:END", help="Steps to compare, END left out.  [default: all common ones]")
@click.option(
    "--tolerance",
    type=float,
    default=1.0,
    show_default=True,
    metavar="FACTOR",
    help="Factor on every tolerance; the tolerances come from the dtypes and the operators.",
)
@click.option("--all-steps", is_flag=True, help="Go on after the step with the first divergence.")
@click.option(
    "--report", type=click.Path(path_type=Path, dir_okay=False), metavar="FILE.html", help="Also write an HTML page."
)
@force_option
@fail_on_option
@json_option
def command(
    *,
    reference: Path,
    target: Path,
    steps: str | None,
    tolerance: float,
    all_steps: bool,
    report: Path | None,
    force: bool,
    fail_on: str,
    as_json: bool,
) -> int:
    """Name the first operator that differs between two recordings of one program.

    REFERENCE and TARGET are folders that `jumar record` wrote, of two devices, machines or versions.
    Settings, data and parameters are compared first, then operators in the order of execution. The exit
    code is 0 when the runs agree and 1 when they do not or cannot be compared.

    Example: jumar compare gpu-recording npu-recording --report accuracy.html
    """
    from jumar.accuracy import CompareOptions, compare, summary_text
    from jumar.report import findings_document, json_text, progress, render_html, write_text

    options = CompareOptions(tolerance_scale=tolerance, steps=parse_steps(steps), all_steps=all_steps)
    with progress() as bars:
        task = bars.add_task("Compare", total=None)
        comparison = compare(
            reference,
            target,
            options=options,
            on_progress=lambda done, total: bars.update(task, completed=done, total=total),
        )
    if report is not None:
        from jumar.port.compare_page import compare_page

        write_text(report, render_html(compare_page(comparison)), force=force)
        click.echo(f"Wrote {report}.", err=True)
    if as_json:
        body = comparison.to_json()
        del body["findings"]
        click.echo(json_text(findings_document(comparison.findings, **body)), nl=False)
    else:
        click.echo(summary_text(comparison))
    return exit_code(comparison.findings, fail_on)
