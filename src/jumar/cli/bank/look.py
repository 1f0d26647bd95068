"""`jumar bank list|show|why-miss`: what is in the bank, and why it has nothing for an operator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import click

from jumar.cli.bank.shared import bank_option, make_table, open_bank, open_layers, print_json, print_table
from jumar.cli.options import json_option
from jumar.tune.plan.plan import worded
from jumar.words import counted

if TYPE_CHECKING:
    from jumar.tune.bank import Bank, Known
    from jumar.tune.work import Work

SHORT_KEY = 12
"""Characters of a key that lists show; `show` takes any beginning that only one task has."""


@click.command("list")
@click.argument("operator", required=False)
@bank_option
@json_option
def list_(*, operator: str | None, bank: str | None, as_json: bool) -> int:
    """List the entries, or those whose operator's name contains OPERATOR."""
    opened = open_bank(bank)
    entries = [entry for entry in opened.entries() if operator is None or operator in entry.task.operator]
    lowered = [one for one in opened.precisions() if operator is None or operator in one.task.operator]
    if as_json:
        print_json(
            entries=[entry.to_json() for entry in entries],
            precisions=[one.to_json() for one in lowered],
            bank=opened.name,
        )
        return 0
    known: list[Known] = [*entries, *lowered]
    num_found = sum(entry.policy is not None for entry in entries)
    fewer = f", {counted(len(lowered), 'plan')} in fewer bits" if lowered else ""
    print_table(
        f"{counted(num_found, 'policy', 'policies')} and {len(entries) - num_found} without a faster one{fewer} in "
        f"{opened.name}.",
        make_table(["Key", "Operator", "Kind", "Policy", "Gain", "Device"], list(map(_list_row, known))),
    )
    return 0


@click.command()
@click.argument("key")
@bank_option
@json_option
def show(*, key: str, bank: str | None, as_json: bool) -> int:
    """Show everything that was measured for the operator whose key begins with KEY."""
    from jumar.tune.bank import Entry

    found = _known_of(open_bank(bank), key)
    if as_json:
        entries = [one.to_json() for one in found if isinstance(one, Entry)]
        print_json(entries=entries, precisions=[one.to_json() for one in found if not isinstance(one, Entry)])
        return 0
    click.echo("\n".join(_described(found[0].task)))
    for entry in found:
        click.echo(f"\n{entry.kind} on {entry.machine}, {entry.updated}")
        click.echo(
            f"  {worded(entry.policy) if entry.policy else 'no faster policy'}"
            + (f": {entry.gain}" if entry.gain else "")
        )
        for tried in entry.tried:
            how = tried.outcome.gain or tried.outcome.detail
            what = "replaced" if tried.replaced else "tried"
            click.echo(f"  {what} {worded(tried.policy)}: {tried.outcome.status}: {how}")
    return 0


@click.command("why-miss")
@click.argument("source", metavar="RECORDING_OR_MODEL")
@click.argument("operator", required=False)
@click.option("--input-shape", default="", metavar="SHAPES", help="Sizes of a model's inputs, as for jumar tune.")
@click.option("--device", default="cpu", show_default=True, help="The device that is asked for.")
@bank_option
@json_option
def why_miss(
    *, source: str, operator: str | None, input_shape: str, device: str, bank: str | None, as_json: bool
) -> int:
    """Say for each operator of a recording, or graph of a model, whether the bank has it.

    For one that it has not, name the property that differs from the nearest entry: a shape, a stride, an
    argument, an operator, the machine, or the version of an engine. With OPERATOR, those whose name contains it.
    The source may also be a folder that torch.npu.set_aoe filled; a model is an .onnx or .pt2 file, or
    module:callable.
    """
    from jumar.tune import this_machine
    from jumar.tune.bank import look_up

    opened = open_layers(bank)
    entries, machine = opened.answers(), this_machine(device)
    found = [(name, work) for name, work in _works(source, input_shape) if operator is None or operator in name]
    lookups = [(name, look_up(work, machine, entries)) for name, work in found]
    if as_json:
        print_json(
            lookups=[
                {"name": name, "key": found.task.key, "status": found.status, "reason": found.reason,
                 "differences": [{"name": one.name, "asked": one.asked, "in_bank": one.in_bank}
                                 for one in found.differences]}
                for name, found in lookups
            ]
        )  # fmt: skip
        return 0
    num_hits = sum(found.status != "miss" for _, found in lookups)
    what = "operators" if not any(found.task.operator == "graph" for _, found in lookups) else "graphs"
    print_table(
        f"{opened.name} knows {num_hits} of {len(lookups)} {what} of {source} on {machine}.",
        make_table(["Operator", "Bank", "Why"], [[name, found.status, found.reason] for name, found in lookups]),
    )
    return 0


def _works(source: str, input_shape: str) -> list[tuple[str, Work]]:
    """Return the operators of a recording, or the graphs of a model, by name."""
    from jumar.tune.folders import temporary_folder
    from jumar.tune.graph.source import is_graph_source, load_graphs
    from jumar.tune.source import open_source

    if not Path(source).is_dir() and is_graph_source(source):
        with TemporaryDirectory(prefix="jumar-why-miss-", dir=temporary_folder()) as folder:
            graphs = load_graphs(source, folder=Path(folder), input_shape=input_shape)
        return [(one.name, one.graph) for one in graphs]
    return [(use.name, use.task) for use in open_source(Path(source)).extraction.tasks]


def _described(work: Work) -> Iterator[str]:
    """Yield the lines that say what a task or graph is."""
    yield f"{work.operator}  {work.key}"
    is_graph = work.operator == "graph"
    for name, spec in work.tensors.items():
        if not (is_graph and spec.constant):
            yield f"  {name}: {spec}" + (" (a weight)" if spec.constant else "")
    if is_graph:
        yield f"  weights: {sum(spec.constant for spec in work.tensors.values())}"
    yield from (f"  {name}: {value}" for name, value in work.arguments.items())
    if is_graph:
        counts = Counter(node.operator for node in getattr(work, "nodes", ()))
        yield from (f"  {name}: {count} times" for name, count in counts.most_common())


def _known_of(bank: Bank, beginning: str) -> list[Known]:
    """Return what is known of the one task whose key begins so. Raises UsageError when there is none or several."""
    from jumar.errors import UsageError

    found = [one for one in bank.everything() if one.task.key.startswith(beginning.lower())]
    keys = {one.task.key for one in found}
    if len(keys) == 1:
        return found
    how_many = f"{len(keys)} operators of the bank have" if keys else "no operator of the bank has"
    raise UsageError(f'"{beginning}" must be the beginning of one key; {how_many} it. See `jumar bank list`.')


def _list_row(entry: Known) -> list[str]:
    gain = f"{(entry.gain.ratio - 1) * 100:+.1f} %" if entry.gain is not None else ""
    if entry.gain is not None and entry.gain.is_estimate:
        gain += ", estimate"
    policy = worded(entry.policy) if entry.policy is not None else f"none of {len(entry.tried)} tried"
    return [entry.task.key[:SHORT_KEY], str(entry.task), entry.kind, policy, gain, _short(entry)]


def _short(entry: Known) -> str:
    return f"{entry.machine.target}, torch {entry.machine.torch}"
