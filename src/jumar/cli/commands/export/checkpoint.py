"""`jumar export checkpoint`: the weights of a checkpoint in a form that loads anywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from jumar.cli.commands.export.show import FORCE, show
from jumar.cli.main import Command
from jumar.cli.options import exit_code, fail_on_option, json_option


@click.command(cls=Command)
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
@click.option(
    "--with-state",
    is_flag=True,
    help="Keep what is beside the weights, too: optimizer, scheduler, scaler, amp, counters.",
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

    IN may be a file of PyTorch, safetensors (also shards beside an index), MindSpore, Keras (.h5, .keras), a
    checkpoint of TensorFlow, or a folder of torch.distributed.checkpoint; its content says which. Nothing in it is
    run. OUT is read back and compared bit by bit. The suffix of OUT names the format: `.pt`, `.safetensors`, `.ckpt`
    (MindSpore's, under its names), `.h5` (Keras'), or that of an installed export format.

    Example: jumar export checkpoint last.pth model.pt --dtype fp16
    """
    from jumar.base.errors import UsageError
    from jumar.export import CheckpointOptions, export_checkpoint
    from jumar.export.options import PREFIXES

    if keep_prefix and prefixes:
        raise UsageError("--keep-prefix and --strip-prefix exclude each other; leave one out.")
    chosen = () if keep_prefix else (prefixes or PREFIXES)
    report = export_checkpoint(source, output, CheckpointOptions(prefixes=chosen, **given))
    show(report, as_json)
    return exit_code(report.findings, fail_on)
