"""A profile: the bottlenecks and the timeline of `jumar advise`, made when somebody opens it."""

from __future__ import annotations

from pathlib import Path

from jumar.advise.look import examine
from jumar.show.blocks.page import Page
from jumar.show.html.profiles import SCRIPTS
from jumar.show.pages.advise import advise_page
from jumar.show.pages.profile import profile_sections, ranks_section
from jumar.timeline.reading import read_timeline, source_at
from jumar.view.bench import Bench
from jumar.view.pages.answers import Answer
from jumar.view.pages.comparison import progress
from jumar.view.pages.documents import page_answer
from jumar.view.store.items import Item
from jumar.view.work import OnProgress


def profile(bench: Bench, item: Item) -> Answer:
    """Return the page of a profile, or of a recording's bottlenecks, or how far it is."""
    again = f"/item/{item.id}/advice" if item.kind == "recording" else f"/item/{item.id}"
    job = bench.jobs.start(
        ("advice", item.id, item.stamp), f"Bottlenecks of {item.place}", again, lambda told: _page(item.path, told)
    )
    if job.state != "done":
        return progress(job)
    page: Page = job.result
    kinds = {type(block) for section in page.sections for block in section.blocks}
    return page_answer(item, page, scripts=[name for kind, name in SCRIPTS.items() if kind in kinds])


def _page(path: Path, on_progress: OnProgress) -> Page:
    found = examine(path, on_progress=on_progress)
    advice, *others = found.advice
    if not advice.parts or found.ranks is None:
        return advise_page(advice, others)
    timeline = read_timeline(source_at(Path(advice.recording), advice.rank))
    together = ranks_section(found.ranks)
    return advise_page(advice, others, [*profile_sections(timeline), *([together] if together else [])])
