"""What each process of a training does once its steps were watched: measure, solve, measure the proposal, and end.

Everything that could differ between the processes is gathered first, so that all of them take the same way. The first
rank writes the answer.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch.utils import _pytree

from jumar.base.errors import JumarError
from jumar.tune.job.gradients.collective import all_reduce_times, gathered, sizes_up_to
from jumar.tune.job.gradients.duel import fight
from jumar.tune.job.gradients.layout import is_default, own_ends, own_settings, settings_of
from jumar.tune.job.gradients.messages import Request, Told
from jumar.tune.job.gradients.refusal import refusal
from jumar.tune.job.gradients.watch import FOLDER_ENVIRONMENT, Watched, has_peers, install_with, wait_for
from jumar.tune.model.machine import Machine, this_machine
from jumar.tune.model.task import Task, TensorSpec
from jumar.tune.search.gradients.forms import item_size
from jumar.tune.search.gradients.model import ALL_REDUCE, Gradient, Link, fit_link, in_ready_order
from jumar.tune.search.gradients.solve import solve

NO_PEERS = (
    "this training has one process, so that no gradient is reduced and nothing is to be split. Start it in several: "
    "jumar tune --job-type 4 SCRIPT --nproc 2, or torchrun."
)
NO_GROUP = (
    "its processes train apart, because the script makes no process group: nothing is reduced. Call "
    "torch.distributed.init_process_group and wrap the model in DistributedDataParallel."
)


def install() -> None:
    """Put the watch in place, once a process."""
    install_with(finish, Told.of_environment(os.environ[FOLDER_ENVIRONMENT]))


def finish(watched: Watched, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> None:
    """Measure what is asked for, write the answer and end the process. Raises SystemExit."""
    told = Told.of_environment(os.environ[FOLDER_ENVIRONMENT])
    try:
        answer = _answer(watched, args, kwargs, Request.read(told.folder))
    except JumarError as error:
        answer = {"error": str(error)}
    if _is_first() or "error" in answer:
        told.answer(answer)
    raise SystemExit(0)


def _is_first() -> bool:
    return not dist.is_initialized() or dist.get_rank() == 0


def _answer(watched: Watched, args: tuple[Any, ...], kwargs: Mapping[str, Any], request: Request) -> dict[str, Any]:
    if not has_peers():
        is_launched = os.environ.get("WORLD_SIZE", "1") != "1"
        return {"error": NO_GROUP if is_launched else NO_PEERS}
    group = watched.ddp.process_group if watched.ddp is not None else None
    request = _of_first(request, group)
    report = {"refusal": refusal(watched), "ready_ns": watched.ready_ns(), "host": platform.node()}
    reports = gathered(report, group)
    for rank, report in enumerate(reports):
        if report["refusal"]:
            return {"error": f"rank {rank}: {report['refusal']}"}
    gradients = gradients_of(watched.parameters, [report["ready_ns"] for report in reports])
    link, machine = _link(watched, gradients, request, group), _machine(watched)
    who = Reducers(
        processes=dist.get_world_size(group),
        hosts=len({report["host"] for report in reports}),
        backend=dist.get_backend(group),
        rate=rate_class(link),
    )
    task = task_of(gradients, who, [args, kwargs])
    gradients, link, machine, task = _of_first((gradients, link, machine, task), group)
    ddp, first = watched.ddp, next(iter(watched.parameters.values()))
    answer = {
        "task": task.to_json(),
        "machine": asdict(machine),
        "gradients": [one.to_json() for one in gradients],
        "link": link.to_json(),
        "world_size": dist.get_world_size(group),
        "backend": dist.get_backend(group),
        "device": first.device.type,
        "is_default": is_default(ddp),
        "own_ends": own_ends(ddp, gradients),
        "is_wrapped": ddp is not None,
        "num_steps": watched.num_steps,
    }
    if f"{task.key}:{machine.key}" in request.known:
        return {**answer, "status": "known"}
    split = solve(gradients, link, request.bounds)
    settings, ends = settings_of(gradients, link, split.ends)
    if list(ends) == answer["own_ends"]:
        return {**answer, "status": "same", "split": {"ends": list(ends)}}
    duels = [fight(watched, args, kwargs, settings, own_settings(watched.ddp), request.seconds)]
    if duels[0].gain.clears(request.min_gain) and not duels[0].disagreement:  # what is passed once is measured again
        duels.append(fight(watched, args, kwargs, settings, own_settings(watched.ddp), request.seconds))
    duel = duels[-1]
    return {
        **answer,
        "status": "measured",
        "split": {"ends": list(ends)},
        "settings": settings,
        "gain": duel.gain.to_json(),
        "first_gain": duels[0].gain.to_json(),
        "before_s": list(duel.before_s),
        "after_s": list(duel.after_s),
        "buckets_before": list(duel.buckets_before),
        "buckets_after": list(duel.buckets_after),
        "disagreement": duel.disagreement,
        "worst_error": duel.worst_error,
    }


def gradients_of(parameters: Mapping[str, torch.Tensor], ready_ns: Sequence[Mapping[str, int]]) -> list[Gradient]:
    """Return the gradients in ready order; one is ready when it is in the slowest process."""
    return in_ready_order(
        [
            Gradient(
                name=name,
                size_bytes=one.numel() * one.element_size(),
                ready_ns=max(of_rank[name] for of_rank in ready_ns),
                place=place,
                dtype=str(one.dtype).removeprefix("torch."),
            )
            for place, (name, one) in enumerate(parameters.items())
        ]
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Reducers:
    """Who reduces the gradients, for the bank's key."""

    processes: int
    hosts: int
    backend: str
    rate: float
    """`rate_class` of the link: the machine's key says nothing of the network."""


def rate_class(link: Link) -> float:
    """Return the power of 4 in GB/s that is nearest to a link's bandwidth: measurements of one network differ less."""
    return float(4 ** round(math.log(link.bandwidth / 1e9, 4)))


def task_of(gradients: Sequence[Gradient], who: Reducers, inputs: Any) -> Task:
    """Return what the bank knows an answer under: the gradients, who reduces them, and the shapes of a step's inputs.

    The inputs stand for the time that the backward pass takes: at another batch size another split is best.
    """
    dtype, total = gradients[0].dtype, sum(one.size_bytes for one in gradients)
    spec = TensorSpec(shape=(total // item_size(dtype),), dtype=dtype, stride=(1,))
    shapes = [list(one.shape) for one in _pytree.tree_leaves(inputs) if isinstance(one, torch.Tensor)]
    sizes = [one.size_bytes for one in sorted(gradients, key=lambda one: one.place)]
    arguments: dict[str, Any] = {"sizes": sizes, **asdict(who), "inputs": shapes}
    return Task(operator=ALL_REDUCE, tensors={"gradients": spec}, arguments=arguments)


def _machine(watched: Watched) -> Machine:
    device = next(iter(watched.parameters.values())).device.type
    machine = this_machine(device)
    return this_machine("cpu") if machine.is_estimate else machine  # the emulated NPU reduces on the CPU, by Gloo


def _of_first(value: Any, group: dist.ProcessGroup | None) -> Any:
    return gathered(value, group)[0]


def _link(watched: Watched, gradients: Sequence[Gradient], request: Request, group: dist.ProcessGroup | None) -> Link:
    if request.link is not None:
        return request.link
    like = next(iter(watched.parameters.values()))
    sizes = sizes_up_to(sum(one.size_bytes for one in gradients))
    return fit_link(all_reduce_times(sizes, like, group, lambda: wait_for(watched.inner)))
