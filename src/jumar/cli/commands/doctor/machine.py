"""`jumar doctor`: what is wrong with this machine; `jumar doctor hccl.json`: what is wrong with a rank table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from jumar.cli.answer import print_document
from jumar.cli.options import exit_code

if TYPE_CHECKING:
    from jumar.advise.doctor import Examination


def tell_machine(*, as_json: bool, fail_on: str) -> int:
    """Print what is wrong with this machine, and what could not be checked."""
    examination = _examine()
    if as_json:
        print_document(
            examination.findings,
            device=examination.device,
            facts=dict(examination.facts),
            not_checked=[gap.to_json() for gap in examination.not_checked],
            num_checked=examination.num_checked,
            variables=[
                {"name": one.variable.name, "value": one.value, "meaning": one.variable.meaning, "wrong": one.complaint}
                for one in examination.variables
            ],
        )
    else:
        from jumar.show import print_page
        from jumar.show.pages.doctor.machine import environment_page

        print_page(environment_page(examination))
    return exit_code(examination.findings, fail_on)


def tell_rank_tables(paths: Sequence[str], *, as_json: bool, fail_on: str) -> int:
    """Print the rules that rank tables break."""
    from jumar.advise.doctor.machine.parts import RankTable
    from jumar.advise.doctor.rules.rank_table import findings_of

    tables = [RankTable(path=path, text=Path(path).read_text("utf-8", "replace")) for path in paths]
    findings = [finding for table in tables for finding in findings_of(table)]
    if as_json:
        print_document(findings, rank_tables=list(paths))
    else:
        from jumar.show import print_page
        from jumar.show.pages.doctor.machine import rank_tables_page

        print_page(rank_tables_page(paths, findings))
    return exit_code(findings, fail_on)


def _examine() -> Examination:
    from jumar.advise.doctor import examine, survey
    from jumar.show import progress

    with progress() as bars:
        bars.add_task("Look at this machine", total=None)
        return examine(survey())
