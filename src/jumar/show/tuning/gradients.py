"""What `jumar tune --job-type 4` says: is another split faster, by how much, and the lines to paste."""

from __future__ import annotations

from typing import TYPE_CHECKING

from jumar.base.text import counted, size_text
from jumar.base.text.digits import Cell
from jumar.show.blocks.page import Column, KeyValues, Page, Section, Table, Verdict

if TYPE_CHECKING:
    from jumar.tune.search.gradients.forms import Forms
    from jumar.tune.search.gradients.outcome import GradientResult
    from jumar.tune.search.gradients.splits import Split

POOR_FIT = 0.2
"""Above this relative residual the link's model describes the measured times poorly, and this is said."""
_LONGEST = 12
"""Buckets whose sizes are listed."""


def gradients_page(result: GradientResult) -> Page:
    """Return what a run found as a page: the answer, the splits by the model, what to paste."""
    sections = [
        Section(title="Splits, by the model", blocks=[_splits(result)]),
        Section(title=_paste_title(result), blocks=[KeyValues(items=to_paste(result))]),
        Section(title="How it was made", blocks=[KeyValues(items=_facts(result))]),
    ]
    return Page(title="Gradients", verdict=verdict(result), actions=[], sections=sections)


def verdict(result: GradientResult) -> Verdict:
    """Return the answer with its figures."""
    own, split = result.own, result.split
    details = [
        f"{counted(len(result.gradients), 'gradient')}, {size_text(_total(result))}, ready within "
        f"{result.backward_s * 1e3:.3g} ms; an all-reduce takes {result.link}.",
        f"By the model the last bucket arrives {own.tail_s * 1e3:.3g} ms after the backward pass with "
        f"{_own_name(result)} ({counted(own.num_buckets, 'bucket')}) and {split.tail_s * 1e3:.3g} ms with "
        f"{counted(split.num_buckets, 'bucket')}.",
    ]
    if result.link.residual > POOR_FIT:
        details.append(
            f"The measured all-reduces are {result.link.residual * 100:.0f} % off that line (root of the mean square): "
            "take the model's times as rough."
        )
    if result.times_source:
        details.append(result.times_source)
    if result.training is not None and result.training.is_emulated:
        details.append(
            f"The {result.training.device} is emulated: this machine's {result.training.machine.device} computed and "
            "reduced, and what was measured says nothing about the real one."
        )
    if result.disagreement:
        return Verdict(status="attention", headline=_headline(result), details=details)
    return Verdict(status="fine", headline=_headline(result), details=details)


def _paste_title(result: GradientResult) -> str:
    if result.status == "solved":
        return "To paste (by the model, not measured)"
    return "To paste" if result.is_faster or result.status == "same" else "The proposal, which is not faster here"


def _headline(result: GradientResult) -> str:
    own, name = _own_name(result), result.source
    if result.status == "solved":
        return f"{name}: {_by_model(result)}, by the model; a recording is not measured."
    if result.status == "same":
        return f"{name}: {own} is already the split with the smallest tail, by the model; nothing was changed."
    times = "" if result.gain is None else f": {result.gain.told('ms', 1000.0)}"
    if result.disagreement:
        return f"{name}: the gradients of the proposed split differ ({result.disagreement}); it is not kept."
    known = "The bank knows: " if result.status == "known" else ""
    if result.action in {"add", "update"} or (known and result.action == "reserved"):
        return f"{known}{name} is faster with {counted(result.split.num_buckets, 'bucket')} than with {own}{times}."
    if result.action == "reserved":
        return f"{name}: the bank's split is as good or better, and is kept{times}."
    buckets, least = counted(result.split.num_buckets, "bucket"), f"{result.min_gain * 100:g} %"
    return f"{known}{name} is not {least} faster with the proposed {buckets} than with {own}{times}. Leave it as it is."


def _by_model(result: GradientResult) -> str:
    saved = result.own.tail_s - result.split.tail_s
    if saved <= 0.0:
        return f"{_own_name(result)} is already the best split"
    return (
        f"{counted(result.split.num_buckets, 'bucket')} save {saved * 1e3:.3g} ms of a step against {_own_name(result)}"
    )


def _own_name(result: GradientResult) -> str:
    if result.framework == "mindspore":
        return "one AllReduce, MindSpore's default"
    if result.training is None or result.training.is_default:
        return "DDP's default"
    return "the script's own buckets"


def _total(result: GradientResult) -> int:
    return sum(one.size_bytes for one in result.gradients)


def _splits(result: GradientResult) -> Table:
    columns = [
        Column(title="Split", code=True),
        Column(title="Buckets", number=True),
        Column(title="Tail", unit="ms", number=True),
        Column(title="Last gradient of each bucket"),
    ]
    known = [*result.others, ("proposal", result.split)]
    if result.framework == "torch":
        known.append(("best single cap", result.forms.cap_split))
    if result.training is not None and not result.training.is_default:
        known.insert(0, ("the script's own buckets", result.own))
    rows: list[list[Cell]] = [[name, one.num_buckets, one.tail_s * 1e3, _ends(one)] for name, one in known]
    return Table(columns=columns, rows=rows)


def _ends(split: Split) -> str:
    shown = ", ".join(map(str, split.ends[:_LONGEST]))
    return shown + (", …" if split.num_buckets > _LONGEST else "")


def to_paste(result: GradientResult) -> list[tuple[str, Cell]]:
    """Return the line of code of each framework; of a MindSpore recording its own.

    DDP's list is in ready order, MindSpore's in the parameters' order: each number is the last parameter of a bucket.
    """
    forms: Forms = result.forms
    caps = ", ".join(f"{cap:.10g}" for cap in forms.bucket_cap_mb_list)
    config = ", ".join(map(str, forms.all_reduce_fusion_config))
    cap_tail = f"# tail {forms.cap_split.tail_s * 1e3:.3g} ms"
    fusion_tail = f"# tail {forms.fusion_split.tail_s * 1e3:.3g} ms"
    mindspore = f"ms.set_auto_parallel_context(all_reduce_fusion_config=[{config}])  {fusion_tail}"
    if result.framework == "mindspore":
        return [("MindSpore", mindspore), ("Numbers", _numbers(result))]
    return [
        ("PyTorch from 2.13", f"DistributedDataParallel(model, bucket_cap_mb_list=[{caps}])"),
        ("PyTorch before", f"DistributedDataParallel(model, bucket_cap_mb={forms.bucket_cap_mb:.10g})  {cap_tail}"),
        ("MindSpore", mindspore),
        (
            "Megatron-LM",
            f"DistributedDataParallelConfig(overlap_grad_reduce=True, bucket_size={forms.megatron_bucket_size})",
        ),
    ]


def _numbers(result: GradientResult) -> str:
    """Return which parameter each number of `all_reduce_fusion_config` is."""
    names = {one.place: one.name for one in result.gradients}
    places = result.forms.all_reduce_fusion_config
    ends = ", ".join(f"{place} {names[place]}" for place in places[:_LONGEST])
    return (
        f"the last parameter of each bucket, counted from 0 at the front of the optimizer's {len(names)}: {ends}"
        f"{', …' if len(places) > _LONGEST else ''}. The backward pass reaches the last bucket first."
    )


def _facts(result: GradientResult) -> list[tuple[str, Cell]]:
    facts: list[tuple[str, Cell]] = [("Source", result.source), ("All-reduce", f"{result.link}, {result.link_source}")]
    if result.link.samples:
        facts.append(
            ("Residual of the fit", f"{result.link.residual * 100:.3g} % over {len(result.link.samples)} sizes")
        )
    if result.training is not None:
        one = result.training
        facts += [
            ("Training", f"{one.num_processes} processes by {one.backend}; {one.num_steps} backward passes watched"),
            ("Measured on", str(one.machine)),
        ]
    if result.first_gain is not None and result.first_gain != result.gain:
        facts.append(("First measurement", result.first_gain.told("ms", 1000.0)))
    if result.buckets_after:
        facts += [
            ("Buckets before", ", ".join(map(size_text, result.buckets_before))),
            ("Buckets after", ", ".join(map(size_text, result.buckets_after))),
        ]
    if result.bank:
        facts.append(("Bank", f"{result.bank}: {result.action or 'nothing written'}"))
    facts.append(("Vendor's file", str(result.fusion_file)))
    return facts
