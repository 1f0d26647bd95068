"""What `jumar profile` prints on stderr at the end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jumar.base.text import counted, size_text
from jumar.show.terminal.tell import tell

if TYPE_CHECKING:
    from jumar.recording import RunEnd


def tell_profiled(out: Path, script: str, document: Mapping[str, Any], end: RunEnd) -> None:
    """Print how the script ended, what the profile holds, what it cost, what is missing, and what to do with it."""
    how = {
        "raised": f"{script} raised an error",
        "exited": f"{script} exited with code {end.exit_code}",
        "interrupted": "stopped with Ctrl-C",
        "stopped": f"ended {script} after {_steps_seen(document, end)} steps",
        "killed": f"{script} was killed",
    }.get(document["status"], f"{script} finished")
    ranks = document["ranks"]
    files = [out / name for facts in ranks.values() for name in facts.get("files", ())]
    traced = [rank for rank, facts in ranks.items() if f"rank-{rank}.json.gz" in facts.get("files", ())]
    size = size_text(sum(_size(path) for path in files))
    of_ranks = f" of {counted(len(traced), 'rank')}" if document.get("world_size", 1) > 1 else ""
    num_steps = max((int(ranks[rank]["num_traced"]) for rank in traced), default=0)
    what = f"profiled {counted(num_steps, 'step')}{of_ranks}, {size}: {out}" if traced else "no step was profiled"
    tell(f"jumar: {how}; {what}", err=True)
    for rank in sorted(ranks, key=int):
        for line in (*_cost(ranks[rank]), *(f"not covered: {text}" for text in ranks[rank].get("not_covered", ()))):
            tell(f"jumar: {line if len(ranks) == 1 else f'rank {rank}: {line}'}", err=True)
    if not ranks:
        for sentence in end.not_covered:
            tell(f"jumar: not covered: {sentence}", err=True)
    if traced:
        tell(f"jumar: next, name the bottlenecks: jumar advise {out}", err=True)
        tell(f"jumar: or look at it: open {out / _trace(traced[0], ranks[traced[0]])} in Perfetto", err=True)


def _steps_seen(document: Mapping[str, Any], end: RunEnd) -> int:
    """Return how many steps the longest rank made; a launcher knows only its exit code."""
    return max([end.num_steps, *(int(facts.get("steps_seen", 0)) for facts in document["ranks"].values())])


def _trace(rank: str, facts: Mapping[str, Any]) -> str:
    """Return the file to look at: where the vendor's profiler wrote one, it has the operators."""
    vendors = (name for name in facts["files"] if name.endswith("_ascend_pt"))
    return next((f"{name}/ASCEND_PROFILER_OUTPUT/trace_view.json" for name in vendors), f"rank-{rank}.json.gz")


def _cost(facts: Mapping[str, Any]) -> Iterator[str]:
    """Yield the sentence on what the profiler cost."""
    cost = facts.get("overhead") or {}
    plain, traced = cost.get("plain_ms"), cost.get("traced_ms")
    if traced is None:
        return
    text = f"a step took {traced['median']:.4g} ms (median of {traced['num_steps']}) in the trace"
    if plain is None:
        yield f"{text}; no step without the profiler was there to compare with"
        return
    text += f" and {plain['median']:.4g} ms (of {plain['num_steps']}) without the profiler"
    if cost["is_within_noise"]:
        yield f"{text}: within the range of those, {plain['least']:.4g} to {plain['most']:.4g} ms"
    else:
        yield f"{text}: {cost['ratio']:.2f} times"


def _size(path: Path) -> int:
    if path.is_dir():
        return sum(found.stat().st_size for found in path.rglob("*") if found.is_file())
    return path.stat().st_size if path.is_file() else 0
