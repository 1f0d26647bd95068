"""`jumar export onnx`: a model as ONNX, compared with PyTorch."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jumar.cli.commands.export.show import FORCE, show
from jumar.cli.main import Command
from jumar.cli.options import exit_code, fail_on_option, json_option


@click.command(cls=Command)
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
    show(report, as_json)
    return exit_code(report.findings, fail_on)
