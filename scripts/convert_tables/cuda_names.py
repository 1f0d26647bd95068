"""`docs/convert-torch-cuda.md`: what becomes of each name of `torch.cuda`, for both targets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from jumar.convert import ConvertOptions, convert_source
from jumar.convert.model import api_map
from jumar.convert.model.options import Target

_HEAD = """\
# What becomes of every name of torch.cuda

Made by `python scripts/build_convert_tables.py`; a test holds it current. Each row is the conversion of a line
that uses the name: `{call}` where it is a function, the name itself where it is a class, an
exception or a module. *Uses* counts 44 public repositories with 9,399 Python files ({uses} uses in all).
The releases are torch_npu and PyTorch {release}.

`D` stands for the device's type: with `--target agnostic` a converted file finds it out once
(`DEVICE_TYPE`). "left" means that the line stays as it is and is reported; why, and what to do, is beside it.
"""

_MARK = "# the line\n"

_MODULES = frozenset(
    {
        "amp", "comm", "jiterator", "memory", "nccl", "nvtx", "profiler", "random", "graphs", "sparse", "streams",
        "tunable", "gds", "default_generators", "has_half", "has_magma",
    }
)  # fmt: skip
"""Names that are no functions though they are in lower case."""

_ARGUMENTS = {
    "can_device_access_peer": "0, 1",
    "caching_allocator_alloc": "1024",
    "caching_allocator_delete": "pointer",
    "caching_allocator_enable": "True",
    "change_current_allocator": "allocator",
    "check_error": "code",
    "device": "0",
    "device_of": "x",
    "graph": "g",
    "list_gpu_processes": "",
    "make_graphed_callables": "model, (x,)",
    "manual_seed": "1",
    "manual_seed_all": "1",
    "set_device": "0",
    "set_per_process_memory_fraction": "0.5",
    "set_rng_state": "state",
    "set_rng_state_all": "states",
    "set_stream": "s",
    "set_sync_debug_mode": "1",
    "stream": "s",
    "use_mem_pool": "pool",
}
"""Arguments of functions that need some."""


@dataclass(frozen=True, slots=True)
class Fate:
    """What becomes of a line: what it is after, and why when it stays."""

    after: str
    note: str
    left: bool


def page() -> str:
    """Return the page."""
    rows = api_map.table()["names"]
    head = _HEAD.format(
        call="torch.cuda.synchronize()",
        uses=f"{sum(row['num_uses'] for row in rows):,}",
        release=api_map.table()["torch_npu"],
    )
    table = ["| torch.cuda. | uses | `--target npu` | `--target agnostic` | note |", "|---|---|---|---|---|"]
    fates = {row["cuda"]: (fate(row["cuda"], "npu"), fate(row["cuda"], "agnostic")) for row in rows}
    for row in sorted(rows, key=lambda row: row["cuda"].lower()):
        npu, agnostic = fates[row["cuda"]]
        notes = " · ".join(dict.fromkeys(note for note in (npu.note, agnostic.note) if note))
        uses = f"{row['num_uses']}" if row["num_uses"] else ""
        table.append(f"| {row['cuda']} | {uses} | {_cell(npu)} | {_cell(agnostic)} | {_escaped(notes)} |")
    return "\n".join([head, *_summary(rows, fates), "", *table]) + "\n"


def _summary(rows: list[dict[str, object]], fates: dict[str, tuple[Fate, Fate]]) -> Iterator[str]:
    for index, target in enumerate(("npu", "agnostic")):
        kept = [row for row in rows if not fates[str(row["cuda"])][index].left]
        uses = sum(int(str(row["num_uses"])) for row in kept)
        share = uses / sum(int(str(row["num_uses"])) for row in rows)
        yield f"- `--target {target}`: {len(kept)} of {len(rows)} names are converted, {share:.1%} of the uses."


def line_of(name: str) -> str:
    """Return the line that uses a name: a call of a function, the bare name of anything else."""
    is_function = name[:1].islower() and name not in _MODULES
    return f"torch.cuda.{name}({_ARGUMENTS.get(name, '')})" if is_function else f"torch.cuda.{name}"


def fate(name: str, target: Target) -> Fate:
    """Convert the line of a name and return what became of it."""
    line = line_of(name)
    outcome = convert_source(f"import torch\n{_MARK}{line}\n", "a.py", ConvertOptions(target=target, unsafe=True))
    after = " ".join(part.strip() for part in outcome.after.decode().partition(_MARK)[2].splitlines())
    said = [finding for finding in outcome.findings if finding.where.line == 3]
    notes = [finding for finding in said if not finding.evidence.get("applied") or finding.action]
    note = " ".join(dict.fromkeys(finding.action or finding.message for finding in notes))
    return Fate(after, note, left=after == line)


def _cell(fate: Fate) -> str:
    return "left" if fate.left else f"`{_escaped(_short(fate.after))}`"


def _short(line: str) -> str:
    return re.sub(r"\bDEVICE_TYPE\b", "D", line)


def _escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
