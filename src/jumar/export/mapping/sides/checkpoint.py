"""A checkpoint as a side of a map: `of_checkpoint`."""

from __future__ import annotations

from pathlib import Path
from typing import cast

from jumar.export.formats.weights import open_weights
from jumar.export.mapping.sides.side import Framework, Info, Side
from jumar.recording.foreign.formats.mindspore.checkpoint import training_state


def of_checkpoint(path: Path, only: str | None = None) -> Side:
    """Return the weights of a checkpoint of any format; `only` says where they are in it.

    The state of an optimizer that stands among MindSpore's parameters is left out. Raises InputError.
    """
    weights = open_weights(path, only)
    infos = {name: weights.info(name) for name in weights.names()}
    framework = cast("Framework", weights.framework)
    if framework == "mindspore":
        others = training_state({name: tuple(info.shape) for name, info in infos.items()})
        infos = {name: info for name, info in infos.items() if name not in others}
    tensors = {name: Info(tuple(info.shape), str(info.dtype).removeprefix("torch.")) for name, info in infos.items()}
    return Side(label=str(path), framework=framework, tensors=tensors, read=weights.read)
