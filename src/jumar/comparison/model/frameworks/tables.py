"""The tables of all frameworks: `words_of`. Names of classes and parameters are in `operators.layers`."""

from __future__ import annotations

from jumar.comparison.model.frameworks.form import Words
from jumar.comparison.model.frameworks.mindspore import WORDS as MINDSPORE
from jumar.comparison.model.frameworks.tensorflow import WORDS as TENSORFLOW
from jumar.comparison.model.frameworks.torch import WORDS as TORCH

TABLES = {"torch": TORCH, "mindspore": MINDSPORE, "tensorflow": TENSORFLOW}


def words_of(framework: str) -> Words:
    """Return the table of a framework (`RunInfo.framework`); an unknown one is read as PyTorch."""
    return TABLES.get(framework, TORCH)
