"""`Document`: what a checkpoint holds, its tensors `Deferred`, and the one sentence for a file that is damaged."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

Framework = Literal["pytorch", "mindspore", "tensorflow"]


@dataclass(frozen=True, slots=True)
class Document:
    """What a file holds."""

    root: Any
    """Mappings, lists, plain values, and `Deferred` or `Unusable` tensors, as they were saved."""
    framework: Framework
    """Whose names and layouts the tensors have; Keras has TensorFlow's."""
    kind: str
    """The file format in words."""
    only: str | None = None
    """Where the weights are, if the format itself says it."""


def damaged(path: Path, reason: object, what: str = "PyTorch checkpoint") -> str:
    """Return the sentence for a file that is no whole file of its kind."""
    text = str(reason).splitlines()[0][:120] if str(reason) else type(reason).__name__
    return f"{path} is cut short, damaged or no {what} ({text}); copy it again from where it was saved."
