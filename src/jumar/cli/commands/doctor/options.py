"""`jumar doctor options`: what is set for the NPU, and what must agree between tuning and use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from jumar.base.errors import UsageError
from jumar.cli.answer import print_document
from jumar.cli.commands.doctor.banks import is_bank, tell_banks
from jumar.cli.options import exit_code


def tell_options(
    paths: Sequence[str | Path], training: Sequence[str | Path], *, soc: str | None, as_json: bool, fail_on: str
) -> int:
    """Print what TensorFlow scripts, commands or banks set for the NPU, and what is wrong with it."""
    import os

    from jumar.show import print_page
    from jumar.show.pages.options import options_page
    from jumar.soc.profiles import get_soc
    from jumar.tfadapter.checks.report import examine_options

    if not paths or len(training) > 1:
        raise UsageError("`jumar doctor options` takes a script, command or bank, and one more to compare with.")
    words = [*map(str, paths), *map(str, training)]
    if any(map(is_bank, words)):
        return tell_banks(words, as_json=as_json, fail_on=fail_on)
    name = get_soc(soc).name if soc is not None else None
    report = examine_options(paths, training=training, soc=name, environment=os.environ)
    if as_json:
        print_document(report.findings, **report.to_json())
    else:
        print_page(options_page(report))
    return exit_code(report.findings, fail_on)
