"""The options of Ascend's own tool for scripts of TensorFlow: `-m`, `-d`, `-c`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from jumar.base.errors import UsageError
from jumar.cli.commands.convert.selection import relative
from jumar.show.convert.request import STDIN

if TYPE_CHECKING:
    from jumar.convert.model.options import ConvertOptions, Strategy, TensorFlowOptions


def tensorflow(source: str, main: str | None, strategy: Strategy | None, *, compat: bool) -> TensorFlowOptions:
    """Return the options for scripts of TensorFlow. Raises UsageError where the sources have no such entry script."""
    from jumar.convert.model.options import TensorFlowOptions

    if main is not None and source == STDIN:
        raise UsageError(
            '"-m" and "-i -" cannot stand together, because a source from stdin is the entry. Leave out -m.'
        )
    entry = relative(main, Path(source)) if main is not None else ""
    return TensorFlowOptions(main=entry, strategy=strategy or "", compat=compat)


def check_framework(options: ConvertOptions) -> None:
    """Raise UsageError for options that have no effect on the framework that is asked for."""
    chosen = options.tensorflow
    given = {"-m": bool(chosen.main), "-d": bool(chosen.strategy), "-c": chosen.compat}
    if options.framework == "torch":
        for name in (name for name, is_given in given.items() if is_given):
            raise UsageError(f'"{name}" is for scripts of TensorFlow; got "--framework torch". Leave one out.')
    if options.framework == "tensorflow" and options.distributed is not None:
        raise UsageError('"distributed" is for PyTorch; for TensorFlow say -d tf_strategy or -d horovod.')
