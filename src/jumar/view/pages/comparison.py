"""Comparisons: two recordings chosen in the list, or a saved one; the tree of modules, and one call of it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlencode

from jumar.base.errors import JumarError
from jumar.comparison import CompareOptions, Comparison, compare
from jumar.comparison.diagnosis import diagnose
from jumar.recording.foreign.recognise import opened
from jumar.recording.reader import Recording
from jumar.show.compare.page import compare_page
from jumar.show.compare.page.about import settings
from jumar.show.html.render import block_views, section_views
from jumar.view.bench import Bench
from jumar.view.data.compared import Compared, call_blocks, tree_json
from jumar.view.data.rebuild import rebuilt
from jumar.view.pages.answers import Answer, Query, message, missing
from jumar.view.store.items import Item
from jumar.view.store.kinds.documents import load
from jumar.view.work import Job, OnProgress

MOST_CALLS = 100_000
_SHOWN_ABOVE = {"First divergence", "Error by module"}


def compared(bench: Bench, query: Query) -> Answer:
    """Return the comparison of the two recordings that were chosen, or how far it is."""
    chosen = [item for name in query.texts("run") if (item := bench.catalogue.find(name)) is not None]
    runs = [item for item in chosen if item.kind == "recording"]
    if len(runs) != 2:
        return message(
            "Choose two recordings",
            f"A comparison takes two recordings, the reference first; {len(runs)} were chosen.",
            state="attention", links=[("/?kind=recording", "Recordings")],
        )  # fmt: skip
    all_steps = query.text("all") == "1"
    reference, target = runs

    def run(on_progress: OnProgress) -> Compared:
        return _compare(reference.path, target.path, all_steps=all_steps, on_progress=on_progress)

    again = f"/compare?{urlencode([('run', item.id) for item in runs] + ([('all', '1')] if all_steps else []))}"
    turned = (
        f"/compare?{urlencode([('run', target.id), ('run', reference.id)] + ([('all', '1')] if all_steps else []))}"
    )
    every = f"/compare?{urlencode([('run', item.id) for item in runs] + [('all', '1')])}"
    identity = ("compare", reference.id, reference.stamp, target.id, target.stamp, all_steps)
    title = f"{reference.place} against {target.place}"
    job = bench.jobs.start(identity, title, again, run)
    links = [(turned, "Turn round"), *([] if all_steps else [(every, "Compare all steps")])]
    curves = f"/curves?{urlencode([('run', item.id) for item in runs])}"
    return shown(job, [*links, (curves, "Curves"), *((f"/item/{item.id}", item.place) for item in runs)])


def _compare(reference: Path, target: Path, *, all_steps: bool, on_progress: OnProgress) -> Compared:
    recordings = (opened(reference), opened(target))
    options = CompareOptions(all_steps=all_steps, max_operators=MOST_CALLS)
    comparison = compare(*recordings, options=options, on_progress=on_progress)
    diagnosis = diagnose(comparison, *recordings, options)
    comparison = dataclasses.replace(comparison, findings=(*comparison.findings, *diagnosis.findings))
    return Compared.of(comparison, diagnosis, recordings)


def saved(bench: Bench, item: Item) -> Answer:
    """Return a comparison that was saved with `--json`."""
    job = bench.jobs.start(
        ("saved", item.id, item.stamp), item.place, f"/item/{item.id}", lambda _: _of_file(bench, item)
    )
    return shown(job, [])


def _of_file(bench: Bench, item: Item) -> Compared:
    """Return the comparison in a file, with its recordings where they lie in the folder. Raises InputError."""
    comparison = rebuilt(Comparison, load(item.path))
    sides = [_recording_of(bench, item, run.path) for run in (comparison.reference, comparison.target)]
    recordings = (sides[0], sides[1]) if sides[0] is not None and sides[1] is not None else None
    return Compared.of(comparison, recordings=recordings, is_saved=True)


def _recording_of(bench: Bench, item: Item, text: str) -> Recording | None:
    """Return a recording by the path that a comparison noted; None where it does not lie in the folder."""
    for base in (item.path.parent, bench.folder.root, Path.cwd()):
        path = base / text
        if bench.folder.holds(path):
            try:
                return Recording.open(path.resolve())
            except JumarError:
                continue
    return None


def shown(job: Job, links: list[tuple[str, str]]) -> Answer:
    """Return the page of a job: its progress, why it failed, or the comparison."""
    if job.state != "done":
        return progress(job)
    found = cast(Compared, job.result)
    comparison = found.comparison
    page = compare_page(comparison, diagnosis=found.diagnosis)
    sections = [*page.sections, settings(found.recordings)]
    context = {
        "title": job.title, "page": page, "links": links, "key": job.key, "steps": found.steps,
        "step": comparison.first_divergence.step if comparison.first_divergence else (found.steps or [0])[0],
        "first": found.first, "is_saved": found.is_saved, "num_calls": len(found.calls),
        "has_recordings": found.recordings is not None,
        "sections": section_views([one for one in sections if one is not None and one.title not in _SHOWN_ABOVE]),
    }  # fmt: skip
    return Answer(template="comparison.html", context=context)


def progress(job: Job) -> Answer:
    """Return the page of a job that is not done."""
    return Answer(template="job.html", context={"job": job}, status=200)


def told(bench: Bench, key: str) -> Answer:
    """Return how far a job is, as JSON."""
    job = bench.jobs.find(key)
    if job is None:
        return Answer(json={"state": "gone"}, status=404)
    return Answer(json={"state": job.state, "done": job.done, "total": job.total})


def tree(bench: Bench, key: str, query: Query) -> Answer:
    """Return the tree of one step as JSON."""
    found = _found(bench, key)
    return Answer(json=tree_json(found, query.number("step"))) if found is not None else Answer(json={}, status=404)


def call(bench: Bench, key: str, index: int) -> Answer:
    """Return one call of a comparison. Raises RecordingError where its step is damaged."""
    found = _found(bench, key)
    if found is None or not 0 <= index < len(found.calls):
        return missing("This comparison was made too long ago, or has no such call. Load the page again.")
    diff = found.calls[index]
    views = block_views(call_blocks(found, index, bench.folder.root), 10_000)
    return Answer(template="compared_call.html", context={"diff": diff, "views": views})


def _found(bench: Bench, key: str) -> Compared | None:
    job = bench.jobs.find(key)
    result: Any = job.result if job is not None and job.state == "done" else None
    return result if isinstance(result, Compared) else None
