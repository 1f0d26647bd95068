"""`jumar doctor opinfo PLOG...`: the operators of plogs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from jumar.base.errors import UsageError
from jumar.cli.answer import print_document

if TYPE_CHECKING:
    from jumar.advise.doctor.opinfo import Gathered


def tell_opinfo(plogs: Sequence[Path], *, output: Path | None, as_json: bool) -> int:
    """Print the operators that plogs name; write document 004's summary to `output`, if there is one."""
    from jumar.advise.doctor.opinfo import FILE_NAME, summary_text
    from jumar.base.files import check_output, write_result
    from jumar.show import print_page
    from jumar.show.pages.doctor.opinfo import opinfo_page

    if not plogs:
        raise UsageError("`jumar doctor opinfo` takes plogs, or folders of them. Try ~/ascend/log/debug/plog.")
    if output is not None:
        output = output / FILE_NAME if output.is_dir() else output
        check_output(output, force=False)
    gathered = _gather(plogs)
    if output is not None:
        write_result(output, summary_text(gathered))
        click.echo(f"Wrote {output}.", err=True)
    if as_json:
        print_document(**_document(gathered))
    else:
        print_page(opinfo_page(gathered))
    return 0


def _gather(plogs: Sequence[Path]) -> Gathered:
    from jumar.advise.doctor.logs.engine.folders import find_logs
    from jumar.advise.doctor.opinfo import gather
    from jumar.show import progress

    size = sum(file.size_bytes for file in find_logs(plogs).files)
    with progress() as bars:
        task = bars.add_task("Read plogs", total=size)
        return gather(plogs, on_progress=lambda done: bars.update(task, advance=done))


def _document(gathered: Gathered) -> dict[str, Any]:
    from dataclasses import asdict

    return {
        "operators": [asdict(one) for one in gathered.types],
        "compiled_later": [asdict(one) for one in gathered.later],
        "num_calls": gathered.num_calls,
        "num_trans_data": gathered.calls_of("TransData"),
        "num_casts": gathered.calls_of("Cast"),
        "num_processes": gathered.num_processes,
        "num_steps_known": gathered.num_steps_known,
        "notes": list(gathered.notes),
    }
