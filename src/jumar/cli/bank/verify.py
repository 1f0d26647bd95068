"""`jumar bank verify`: whether the bank is whole, and whether its policies are still faster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from jumar.cli.bank.shared import bank_option, make_table, open_bank, print_json, print_table
from jumar.cli.options import json_option
from jumar.words import counted

if TYPE_CHECKING:
    from jumar.tune.bank import Bank
    from jumar.tune.remeasure import Remeasured

_WORDS = {
    "faster": "faster, as the bank says",
    "same": "no faster than the default by what was measured now",
    "slower": "slower than the default",
    "disagrees": "computes something else",
    "not-judged": "not judged",
}


@click.command()
@click.option("--measure", is_flag=True, help="Also measure the policies of this machine again.")
@click.option("--time-budget", metavar="TIME", help="Stop measuring after this time: 90s, 2m, 1h.  [default: none]")
@bank_option
@json_option
def verify(*, measure: bool, time_budget: str | None, bank: str | None, as_json: bool) -> int:
    """Check the bank: the file, every entry, and that each policy has the measurement that let it in.

    With --measure every operator tuned on this machine is run again with and without its policies; nothing in the
    bank changes. The exit code is 1 when something is wrong, or a policy disagrees or is slower now.
    """
    opened = open_bank(bank)
    problems = opened.problems()
    found = _measure(opened, time_budget) if measure and not problems else []
    bad = [one for one in found if one.verdict in {"slower", "disagrees"}]
    if as_json:
        print_json(bank=opened.name, problems=problems, measured=[one.to_json() for one in found])
        return int(bool(problems or bad))
    for problem in problems:
        click.echo(problem)
    state = f"has {counted(len(problems), 'problem')}" if problems else "is whole"
    again = (
        f"; {counted(len(found), 'operator')} measured again, {len(bad)} of them worse than untuned" if measure else ""
    )
    if measure and (lowered := opened.precisions()):
        again += f"; {counted(len(lowered), 'plan')} in fewer bits not measured: their weights are not in the bank"
    rows = [[str(one.task), " + ".join(map(str, one.stack)), _WORDS[one.verdict], one.detail] for one in found]
    print_table(f"{opened.name} {state}{again}.", make_table(["Operator", "Policies", "Now", "Measured"], rows))
    return int(bool(problems or bad))


def _measure(bank: Bank, time_budget: str | None) -> list[Remeasured]:
    from jumar.report import progress
    from jumar.tune import this_machine
    from jumar.tune.options import parse_duration_s
    from jumar.tune.remeasure import remeasure

    budget = None if time_budget is None else parse_duration_s(time_budget, "--time-budget")
    with progress() as bars:
        task = bars.add_task("Measure again", total=None)
        return remeasure(
            bank.entries(),
            this_machine(),
            time_budget_s=budget,
            on_progress=lambda done, total: bars.update(task, completed=done, total=total),
        )
