"""What the keys of a TensorFlow checkpoint mean: `readable` names, and those that are no weights of the model."""

from __future__ import annotations

import re
from collections.abc import Container

OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"
_SLOT = "/.OPTIMIZER_SLOT/"
COUNTERS = {"save_counter", "global_step", "step", "beta1_power", "beta2_power", "epoch", "_iterations"}
GROUPS = {"optimizer", "keras_api", "_optimizer", "loss_tracker", "train_state"}
_SLOTS = re.compile(r"/(Adam(_1)?|AdamW(_1)?|Momentum|RMSProp(_1)?|Adagrad|Adadelta(_1)?|Ftrl(_1)?|"
                    r"adam_[mv]|LAMB(_1)?|ExponentialMovingAverage)$")  # fmt: skip
"""Endings of the names of an optimizer's variables in a checkpoint of names (TensorFlow 1)."""


def readable(key: str) -> str:
    """Return a name without what only TensorFlow needs: `model/layer-0/kernel`.

    In a checkpoint of objects a slash within a name is written `.S` and a dot at its beginning is doubled.
    """
    if not key.endswith(_VALUE) and _SLOT not in key:
        return key
    parts = key.removesuffix(_VALUE).split("/")
    return "/".join(re.sub(r"\.(S|\.)", lambda found: {"S": "/", ".": "."}[found[1]], part) for part in parts)


def is_training(key: str, keys: Container[str]) -> bool:
    """Return whether a key belongs to an optimizer, or counts steps."""
    if key.endswith(_VALUE):
        parts = key.removesuffix(_VALUE).split("/")
        return _SLOT in key or bool(GROUPS & set(parts)) or (len(parts) == 1 and parts[0] in COUNTERS)
    found = _SLOTS.search(key)
    return ("/" not in key and key in COUNTERS) or (found is not None and key[: found.start()] in keys)
