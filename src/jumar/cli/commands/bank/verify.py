"""`jumar bank verify`: whether the bank is whole, and whether its policies are still faster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from jumar.base.errors import UsageError
from jumar.base.text import counted
from jumar.cli.answer import print_document
from jumar.cli.main import Command
from jumar.cli.options import bank_option, json_option, open_bank
from jumar.show.tuning.bank import make_table, print_table
from jumar.tune.plan.plan import worded

if TYPE_CHECKING:
    from jumar.tune.bank.store import Bank
    from jumar.tune.job.remeasure import Remeasured
    from jumar.tune.model.machine import Machine

_WORDS = {
    "faster": "faster, as the bank says",
    "same": "not faster than the default in this measurement",
    "slower": "slower than the default",
    "disagrees": "computes other values",
    "not-judged": "not judged",
}
_BAD = {"slower", "disagrees"}


@click.command(cls=Command)
@click.option("--measure", is_flag=True, help="Also measure the operators' policies of this machine again.")
@click.option("--time-budget", metavar="TIME", help="Stop measuring after this time: 90s, 2m, 1h.  [default: none]")
@bank_option
@json_option
def verify(*, measure: bool, time_budget: str | None, bank: str | None, as_json: bool) -> int:
    """Check the bank: the file, every entry, and that each policy has the measurement that let it in.

    With --measure every operator tuned on this machine is run again with and without its policies; nothing in the
    bank changes. Graphs are left out: their weights are not in the bank. The exit code is 1 when something is wrong,
    or a policy disagrees or is slower now.
    """
    from jumar.tune import this_machine

    budget_s = _budget_s(time_budget, measure=measure)
    opened = open_bank(bank)
    problems = opened.problems()
    machine = this_machine() if measure and not problems else None
    found = [] if machine is None else _measured(opened, machine, budget_s)
    is_bad = bool(problems) or any(one.verdict in _BAD for one in found)
    if as_json:
        print_document(bank=opened.name, problems=problems, measured=[one.to_json() for one in found])
        return int(is_bad)
    for problem in problems:
        click.echo(problem)
    state = f"has {counted(len(problems), 'problem')}" if problems else "is whole"
    again = "" if machine is None else f"; {_again(found)}{_left_out(opened, machine, len(found))}"
    rows = [[str(one.task), " + ".join(map(worded, one.stack)), _WORDS[one.verdict], one.detail] for one in found]
    print_table(f"{opened.name} {state}{again}.", make_table(["Operator", "Policies", "Now", "Measured"], rows))
    return int(is_bad)


def _budget_s(time_budget: str | None, *, measure: bool) -> float | None:
    """Return the seconds that may be measured. Raises UsageError for no time, and for nothing to measure."""
    from jumar.tune.measure.options import TuneOptions, parse_duration_s

    if time_budget is None:
        return None
    if not measure:
        raise UsageError(f'"--time-budget {time_budget}" would do nothing without --measure. Add it.')
    return TuneOptions(time_budget_s=parse_duration_s(time_budget, "--time-budget")).time_budget_s


def _measured(bank: Bank, machine: Machine, budget_s: float | None) -> list[Remeasured]:
    from jumar.show import progress
    from jumar.tune.job.remeasure import remeasure
    from jumar.tune.measure.worker.client import Turns

    with progress() as bars:
        task = bars.add_task("Measure again", total=None)
        return remeasure(
            bank.entries(),
            machine,
            time_budget_s=budget_s,
            on_progress=lambda done, total: bars.update(task, completed=done, total=total),
            turns=Turns(),
        )


def _again(found: Sequence[Remeasured]) -> str:
    """Return how many operators were measured, and what came of it."""
    judged = [one for one in found if one.verdict != "not-judged"]
    num_bad = sum(one.verdict in _BAD for one in judged)
    said = f"{counted(len(judged), 'operator')} measured again, {num_bad} of them worse than untuned"
    return said if len(judged) == len(found) else f"{said}; {len(found) - len(judged)} not judged"


def _left_out(bank: Bank, machine: Machine, num_measured: int) -> str:
    """Return what was not measured, and why; empty where everything was."""
    from jumar.tune.graph import Graph
    from jumar.tune.job.remeasure import tuned_on

    tuned = tuned_on(machine, bank.entries())
    num_graphs = sum(isinstance(group[0].task, Graph) for group in tuned)
    num_late, num_lowered = len(tuned) - num_graphs - num_measured, len(bank.precisions())
    parts = [counted(num_graphs, "graph")] if num_graphs else []
    parts += [f"{counted(num_lowered, 'plan')} in fewer bits"] if num_lowered else []
    late = f"; {counted(num_late, 'operator')} not measured: --time-budget was over" if num_late else ""
    return late + (f"; {' and '.join(parts)} not measured: their weights are not in the bank" if parts else "")
