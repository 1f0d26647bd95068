"""`jumar export onnx`: a model as ONNX, compared with PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jumar.base.text import SIZE_HELP
from jumar.cli.commands.export.show import FORCE, show
from jumar.cli.help import more_option
from jumar.cli.main import Command
from jumar.cli.options import exit_code, fail_on_option, json_option


@click.command(cls=Command)
@click.argument("factory", metavar="MODULE:CALLABLE")
@click.argument("output", type=click.Path(path_type=Path), metavar="OUT")
@click.option("--opset", type=int, metavar="N", help="Version of ONNX's operator set.  [default: the exporter's]")
@click.option("--weights", metavar="CHECKPOINT", help="Give the model the weights of this checkpoint.")
@click.option("--only", metavar="KEY", help="Where the weights are in the checkpoint, e.g. model or ema.model.")
@click.option(
    "--strip-prefix",
    "prefixes",
    multiple=True,
    metavar="PREFIX",
    help="Take PREFIX from the checkpoint's keys (may be repeated).  [default: module. and _orig_mod.]",
)
@click.option("--strict/--no-strict", default=True, help="Refuse a checkpoint whose names are not the model's.")
@click.option("--dynamic-batch", is_flag=True, help="Leave the first dimension of every input open.")
@click.option(
    "--dynamic",
    "--dynamic-axes",
    "dynamic",
    multiple=True,
    metavar="INPUT:AXIS=NAME",
    help="Leave axes of an input open, e.g. x:0=batch,2=height (may be repeated).",
)
@more_option("--input-names", metavar="A,B", help="Names of the inputs in the file.  [default: forward's]")
@more_option("--output-names", metavar="A,B", help="Names of the outputs in the file.  [default: the exporter's]")
@more_option(
    "--external-above", metavar="SIZE", help=f"Put larger weights into OUT.data. {SIZE_HELP}  [default: 2GB, the limit]"
)
@more_option("--rtol", "relative_tolerance", default=1e-3, show_default=True, help="Relative tolerance of the check.")
@more_option("--atol", "absolute_tolerance", default=1e-4, show_default=True, help="Absolute tolerance of the check.")
@FORCE
@json_option
@fail_on_option
def onnx(
    *,
    factory: str,
    output: Path,
    prefixes: tuple[str, ...],
    dynamic: tuple[str, ...],
    input_names: str | None,
    output_names: str | None,
    external_above: str | None,
    as_json: bool,
    fail_on: str,
    **given: Any,
) -> int:
    """Export a model to the ONNX file OUT and compare it with PyTorch.

    MODULE:CALLABLE returns (model, example_inputs); the inputs are a tensor, a tuple, or a dict of named ones. ATC of
    2021 takes --opset 11 only. Each operator that ATC does not take is named. Needs: pip install 'jumar[export]'.

    Example: jumar export onnx models:build model.onnx --opset 11 --weights last.pth.tar
    """
    from jumar.base.text import parse_size
    from jumar.export import OnnxOptions, export_onnx
    from jumar.export.onnx.options import ONE_FILE_BYTES, parse_dynamic, parse_names
    from jumar.export.options import PREFIXES

    options = OnnxOptions(
        prefixes=prefixes or PREFIXES,
        dynamic=parse_dynamic(dynamic),
        input_names=parse_names(input_names),
        output_names=parse_names(output_names),
        one_file_bytes=parse_size(external_above) if external_above is not None else ONE_FILE_BYTES,
        **given,
    )
    report = export_onnx(factory, output, options)
    show(report, as_json)
    return exit_code(report.findings, fail_on)
