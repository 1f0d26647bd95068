"""`jumar export`: weights of a checkpoint, or a model as ONNX, in a form that loads anywhere."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jumar.cli.answer import print_document
from jumar.cli.main import Group
from jumar.cli.options import exit_code, fail_on_option, json_option

if TYPE_CHECKING:
    from jumar.export import CheckpointReport, OnnxReport

FORCE = click.option("--force", is_flag=True, help="Replace an existing file.")


@click.group(cls=Group)
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
@click.option(
    "--embedding",
    "embeddings",
    multiple=True,
    metavar="PATTERN",
    help="Into a .ckpt: path of an Embedding, whose weight MindSpore names embedding_table (may be repeated).",
)
@FORCE
@json_option
@fail_on_option
def checkpoint(
    *,
    source: Path,
    output: Path,
    prefixes: tuple[str, ...],
    keep_prefix: bool,
    as_json: bool,
    fail_on: str,
    **given: Any,
) -> int:
    """Write the model's weights in the checkpoint IN to OUT, as CPU tensors under bare keys.

    Nothing in IN is run. OUT is read back and compared bit by bit. The suffix of OUT names the format: `.pt`,
    `.safetensors`, `.ckpt` (MindSpore's, under its names), or that of an installed export format. IN may be
    MindSpore's .ckpt, too.

    Example: jumar export checkpoint last.pth model.pt --dtype fp16
    """
    from jumar.base.errors import UsageError
    from jumar.export import CheckpointOptions, export_checkpoint
    from jumar.export.options import PREFIXES

    if keep_prefix and prefixes:
        raise UsageError("--keep-prefix and --strip-prefix exclude each other; leave one out.")
    chosen = () if keep_prefix else (prefixes or PREFIXES)
    report = export_checkpoint(source, output, CheckpointOptions(prefixes=chosen, **given))
    _show(report, as_json)
    return exit_code(report.findings, fail_on)


@command.command()
@click.argument("factory", metavar="MODULE:CALLABLE")
@click.argument("output", type=click.Path(path_type=Path), metavar="OUT")
@click.option("--opset", type=int, metavar="N", help="Version of ONNX's operator set.  [default: the exporter's]")
@click.option("--dynamic-batch", is_flag=True, help="Leave the first dimension of every input open.")
@click.option("--rtol", "relative_tolerance", default=1e-3, show_default=True, help="Relative tolerance of the check.")
@click.option("--atol", "absolute_tolerance", default=1e-4, show_default=True, help="Absolute tolerance of the check.")
@FORCE
@json_option
@fail_on_option
def onnx(*, factory: str, output: Path, as_json: bool, fail_on: str, **given: Any) -> int:
    """Export a model to the ONNX file OUT and compare it with PyTorch.

    MODULE:CALLABLE returns (model, example_inputs). Needs: pip install 'jumar[export]'.

    Example: jumar export onnx models:build model.onnx --dynamic-batch
    """
    from jumar.export import OnnxOptions, export_onnx

    report = export_onnx(factory, output, OnnxOptions(**given))
    _show(report, as_json)
    return exit_code(report.findings, fail_on)


def _show(report: CheckpointReport | OnnxReport, as_json: bool) -> None:
    if as_json:
        print_document(**{item.name: getattr(report, item.name) for item in fields(report)})
    else:
        from jumar.show.pages.export import print_export

        print_export(report)
