"""`Averager`: gradients averaged over the ranks through flat buffers, in the place of DistributedDataParallel."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import nn

Tensor = torch.Tensor


def ranks() -> int:
    """Return the number of processes of the default group; 1 where there is none."""
    from torch import distributed

    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


@torch.no_grad()
def spread(model: nn.Module) -> None:
    """Give all ranks the weights and buffers of rank 0, as DistributedDataParallel does when it is made."""
    from torch import distributed

    if ranks() > 1:
        for tensor in (*model.parameters(), *model.buffers()):
            value = tensor.detach().contiguous()
            distributed.broadcast(value, src=0)
            if value.data_ptr() != tensor.data_ptr():
                tensor.copy_(value)


class Averager:
    """Averages the gradients of a fixed list of parameters, `num_pieces` messages for each dtype.

    All ranks must have the same parameters in the same order. A parameter without a gradient on this rank counts as
    zeros, and gets the average when another rank has one; without a gradient anywhere it keeps none.
    """

    def __init__(self, num_pieces: int) -> None:
        self._num_pieces = num_pieces
        self._buffers: dict[tuple[torch.device, torch.dtype, int], Tensor] = {}

    @torch.no_grad()
    def average(self, parameters: Sequence[Tensor], *, flag: bool) -> tuple[list[Tensor], bool]:
        """Return the averaged gradient of each parameter that has one on some rank, and whether a rank's `flag` is up.

        The gradients themselves are left as they are: `take` puts the averages in their places. The sum of ranks is
        of gradients divided by their number, as in DistributedDataParallel, so that float16 overflows no sooner.
        """
        from torch import distributed

        groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
        for place, parameter in enumerate(parameters):
            groups.setdefault((parameter.device, parameter.dtype), []).append(place)
        averages: list[Tensor | None] = [None] * len(parameters)
        works = []
        device = parameters[0].device if parameters else torch.device("cpu")
        has_one = [parameter.grad is not None for parameter in parameters]
        known = torch.tensor([*has_one, flag], dtype=torch.int32).to(device)
        works.append(distributed.all_reduce(known, async_op=True))
        for key, places in groups.items():
            flat = self._filled(key, [parameters[place] for place in places])
            size = -(-flat.numel() // max(self._num_pieces, 1)) or 1
            works += [distributed.all_reduce(piece, async_op=True) for piece in flat.split(size)]  # type: ignore[no-untyped-call]
            start = 0
            for place in places:
                shape = parameters[place].shape
                averages[place] = flat[start : start + shape.numel()].view(shape)
                start += shape.numel()
        for work in works:
            if work is not None:
                work.wait()
        *used, flags = known.tolist()
        self._used = [bool(number) for number in used]
        found = [average for average, is_used in zip(averages, self._used, strict=True) if is_used]
        return [average for average in found if average is not None], bool(flags)

    @torch.no_grad()
    def take(self, parameters: Sequence[Tensor], averages: Sequence[Tensor]) -> None:
        """Put the averages into the gradients of the parameters that `average` was called with."""
        used = [parameter for parameter, is_used in zip(parameters, self._used, strict=True) if is_used]
        for parameter, average in zip(used, averages, strict=True):
            if parameter.grad is None:
                parameter.grad = average.clone()
            else:
                parameter.grad.copy_(average)

    def _filled(self, key: tuple[torch.device, torch.dtype], parameters: list[Tensor]) -> Tensor:
        """Return the flat buffer of a device and dtype, filled with the gradients divided by the number of ranks."""
        size = sum(parameter.numel() for parameter in parameters)
        device, dtype = key
        flat = self._buffers.setdefault((device, dtype, size), torch.empty(size, dtype=dtype, device=device))
        part, start = 1.0 / ranks(), 0
        for parameter in parameters:
            place = flat[start : start + parameter.numel()].view(parameter.shape)
            gradient = parameter.grad
            if gradient is None:
                place.zero_()
            elif gradient.is_sparse:
                raise RuntimeError(
                    f"combine_ddp averages dense gradients; a parameter {list(parameter.shape)} has a sparse one. "
                    "Use Embedding(sparse=False), or DistributedDataParallel without combine_ddp."
                )
            else:
                torch.mul(gradient, part, out=place)
            start += parameter.numel()
        return flat
