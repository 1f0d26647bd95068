"""A knowledge bank: its entries, one of them with what was tried, and why it has nothing for a recording."""

from __future__ import annotations

from typing import Any

from jumar.show.blocks.page import Block, Column, Listing, Table
from jumar.show.html.render import block_views
from jumar.show.tuning.bank import described
from jumar.tune.bank.entry import Entry
from jumar.tune.bank.precisions import Known
from jumar.tune.bank.store import Bank
from jumar.tune.plan.plan import worded
from jumar.view.bench import Bench
from jumar.view.data.candidates import of_entry
from jumar.view.pages.answers import Answer, Query, message, missing
from jumar.view.pages.comparison import progress
from jumar.view.pages.tuning import bars
from jumar.view.store.items import Item
from jumar.view.work import OnProgress

MOST_SHOWN = 500
SHORT_KEY = 12


def bank(bench: Bench, item: Item, query: Query) -> Answer:
    """Return the entries of a bank, those with the words of a search. Raises BankError."""
    words = query.text("q").lower().split()
    lines = [_line(one) for one in _everything(item)]
    found = [line for line in lines if all(word in " ".join(map(str, line.values())).lower() for word in words)]
    runs = [one for one in bench.catalogue.look().items if one.kind == "recording"]
    context = {
        "item": item, "lines": found[:MOST_SHOWN], "num_found": len(found), "num_all": len(lines),
        "words": query.text("q"), "runs": runs[:200],
    }  # fmt: skip
    return Answer(template="bank.html", context=context)


def _everything(item: Item) -> list[Known]:
    opened = Bank.open(item.path.parent, create=False)
    try:
        return opened.everything()
    finally:
        opened.close()


def _line(entry: Known) -> dict[str, Any]:
    gain = f"{(entry.gain.ratio - 1) * 100:+.1f} %" if entry.gain is not None else ""
    policy = worded(entry.policy) if entry.policy is not None else f"none of {len(entry.tried)} tried"
    return {
        "key": entry.task.key[:SHORT_KEY], "operator": str(entry.task), "kind": str(entry.kind), "policy": policy,
        "gain": gain, "device": f"{entry.machine.target}, torch {entry.machine.torch}", "updated": entry.updated[:19],
    }  # fmt: skip


def entry(item: Item, query: Query) -> Answer:
    """Return one task of the bank with everything that was measured for it. Raises BankError."""
    key = query.text("key").lower()
    found = [one for one in _everything(item) if key and one.task.key.startswith(key)]
    if not found:
        return missing("The bank has no entry of this key.")
    blocks: list[Block] = [Listing(title="What it is", text="\n".join(described(found[0].task)))]
    kinds = [
        {"line": _line(one), "machine": str(one.machine), "gain": str(one.gain) if one.gain else "",
         "bars": bars(of_entry(one)) if isinstance(one, Entry) else []}
        for one in found
    ]  # fmt: skip
    return Answer(template="entry.html", context={"item": item, "views": block_views(blocks), "kinds": kinds})


def why_miss(bench: Bench, item: Item, query: Query) -> Answer:
    """Return for each operator of a recording whether the bank has it, and what differs where it has not."""
    run = bench.catalogue.find(query.text("run"))
    if run is None or run.kind != "recording":
        return message("Choose a recording", "The bank is asked for the operators of a recording of this folder.",
                       state="attention", links=[(f"/item/{item.id}", "The bank")])  # fmt: skip
    again = f"/item/{item.id}/why-miss?run={run.id}"

    def look(_: OnProgress) -> list[tuple[str, str, str]]:
        from jumar.tune import this_machine
        from jumar.tune.bank.presence import look_up
        from jumar.tune.search.tasks.source import open_source

        opened = Bank.open(item.path.parent, create=False)
        try:
            entries, machine = opened.answers(), this_machine("cpu", with_compiler=False)
        finally:
            opened.close()
        lookups = [(use.name, look_up(use.task, machine, entries)) for use in open_source(run.path).extraction.tasks]
        return [(name, found.status, found.reason) for name, found in lookups]

    job = bench.jobs.start(
        ("why-miss", item.id, item.stamp, run.id, run.stamp), f"{item.place} for {run.place}", again, look
    )
    if job.state != "done":
        return progress(job)
    columns = [Column(title="operator", code=True), Column(title="bank"), Column(title="why")]
    marked = [number for number, row in enumerate(job.result) if row[1] == "miss"]
    table = Table(columns=columns, rows=job.result, marked=marked)
    hits = sum(row[1] != "miss" for row in job.result)
    context = {"item": item, "run": run, "views": block_views([table]), "num_hits": hits, "num_all": len(job.result)}
    return Answer(template="why_miss.html", context=context)
