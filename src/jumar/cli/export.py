"""`jumar export`: weights of a checkpoint, or a model as ONNX, in a form that loads anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from jumar.cli.options import exit_code, fail_on_option, json_option

if TYPE_CHECKING:
    from jumar.export import CheckpointReport, OnnxReport

FORCE = click.option("--force", is_flag=True, help="Replace an existing file.")


@click.group()
def command() -> None:
    """Export weights or a model for use elsewhere.

    Example: jumar export checkpoint last.pth model.pt
    """


@command.command()
@click.argument("source", type=click.Path(path_type=Path), metavar="IN")
@click.argument("output", type=click.Path(path_type=Path), metavar="OUT")
@click.option(
    "--strip-prefix",
    "prefixes",
    multiple=True,
    metavar="PREFIX",
    help="Take PREFIX from the keys that carry it (may be repeated).  [default: module. and _orig_mod.]",
)
@click.option("--keep-prefix", is_flag=True, help="Leave the keys as they are.")
@click.option("--dtype", type=click.Choice(["fp32", "fp16", "bf16"]), help="Convert floating tensors.")
@click.option("--only", metavar="KEY", help="Where the weights are in the checkpoint, e.g. model or ema.model.")
@FORCE
@json_option
@fail_on_option
def checkpoint(
    *,
    source: Path,
    output: Path,
    prefixes: tuple[str, ...],
    keep_prefix: bool,
    dtype: str | None,
    only: str | None,
    force: bool,
    as_json: bool,
    fail_on: str,
) -> int:
    """Write the model's weights in the checkpoint IN to OUT, as CPU tensors under bare keys.

    Nothing in IN is run. OUT is read back and compared bit by bit; `.safetensors` writes that format.

    Example: jumar export checkpoint last.pth model.pt --dtype fp16
    """
    from jumar.errors import UsageError
    from jumar.export import CheckpointOptions, export_checkpoint
    from jumar.export.options import PREFIXES

    if keep_prefix and prefixes:
        raise UsageError("--keep-prefix and --strip-prefix exclude each other; leave one out.")
    chosen = () if keep_prefix else (prefixes or PREFIXES)
    options = CheckpointOptions(prefixes=chosen, dtype=dtype, only=only, force=force)
    report = export_checkpoint(source, output, options)
    _show(report, _checkpoint_lines(report), as_json)
    return exit_code(report.findings, fail_on)


@command.command()
@click.argument("factory", metavar="MODULE:CALLABLE")
@click.argument("output", type=click.Path(path_type=Path), metavar="OUT")
@click.option("--opset", type=int, metavar="N", help="Version of ONNX's operator set.  [default: the exporter's]")
@click.option("--dynamic-batch", is_flag=True, help="Leave the first dimension of every input open.")
@click.option("--rtol", default=1e-3, show_default=True, help="Relative tolerance of the check.")
@click.option("--atol", default=1e-4, show_default=True, help="Absolute tolerance of the check.")
@FORCE
@json_option
@fail_on_option
def onnx(
    *,
    factory: str,
    output: Path,
    opset: int | None,
    dynamic_batch: bool,
    rtol: float,
    atol: float,
    force: bool,
    as_json: bool,
    fail_on: str,
) -> int:
    """Export a model to the ONNX file OUT and compare it with PyTorch.

    MODULE:CALLABLE returns (model, example_inputs). Needs: pip install 'jumar[export]'.

    Example: jumar export onnx models:build model.onnx --dynamic-batch
    """
    from jumar.export import OnnxOptions, export_onnx

    options = OnnxOptions(
        opset=opset, dynamic_batch=dynamic_batch, relative_tolerance=rtol, absolute_tolerance=atol, force=force
    )
    report = export_onnx(factory, output, options)
    _show(report, _onnx_lines(report), as_json)
    return exit_code(report.findings, fail_on)


def _show(report: CheckpointReport | OnnxReport, lines: list[str], as_json: bool) -> None:
    from jumar.report import findings_document, json_text, print_findings

    if as_json:
        from dataclasses import fields

        plain = {item.name: getattr(report, item.name) for item in fields(report) if item.name != "findings"}
        click.echo(json_text(findings_document(report.findings, **plain)), nl=False)
        return
    click.secho(lines[0], bold=True)
    for line in lines[1:]:
        click.echo(f"  {line}")
    if report.findings:
        print_findings(report.findings)


def _checkpoint_lines(report: CheckpointReport) -> list[str]:
    dtypes = ", ".join(f"{number} {name}" for name, number in report.num_by_dtype.items())
    lines = [
        f"Wrote {report.output}: {report.num_tensors} tensors, {report.num_values:,} values, "
        f"{report.size_bytes / 2**20:.1f} MiB; read back and equal bit by bit.",
        f"dtypes: {dtypes}; on the CPU",
        f"weights found under: {report.found_under or 'the whole file'}",
    ]
    lines += [
        f"prefix {prefix} taken from {number} of {report.num_tensors} keys"
        for prefix, number in report.num_by_prefix.items()
    ]
    if report.others:
        lines.append(f"other weights in the file, not taken: {', '.join(report.others)} (--only KEY)")
    if report.left_behind:
        lines.append(f"left behind: {', '.join(report.left_behind)}")
    return lines


def _onnx_lines(report: OnnxReport) -> list[str]:
    lines = [f"Wrote {report.output}: {report.size_bytes / 2**20:.1f} MiB, operator set {report.opset}."]
    if report.differences is None:
        return [*lines, "Not compared with PyTorch: ONNX Runtime is not installed (pip install 'jumar[export]')."]
    lines += [
        f"output {item.output} {item.shape}: greatest difference from PyTorch {item.greatest_absolute:.3g} "
        f"(relative {item.greatest_relative:.3g})"
        for item in report.differences
    ]
    return lines
