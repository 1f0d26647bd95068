"""PyTorch's own table: its names, and what its layers imply that other frameworks have words for: `WORDS`."""

from __future__ import annotations

from typing import Any

from jumar.comparison.model.frameworks.form import Settings, Words, same_padding

_GATES: dict[str, Any] = {"activation": "tanh", "recurrent_activation": "sigmoid"}
_IMPLIED: dict[str, dict[str, Any]] = {
    "LSTM": _GATES,
    "GRU": {**_GATES, "reset_after": True},
    "RNN": {"activation": "tanh"},
}
"""What PyTorch's recurrent layers have no setting for."""


def layer(settings: Settings) -> dict[str, Any]:
    """Return the settings of a layer with what PyTorch implies, and the mode of a padding as numbers."""
    kind = str(settings.get("type", ""))
    found = {**_IMPLIED.get(kind, {}), **settings}
    if kind == "RNN" and "nonlinearity" in found:
        found["activation"] = found["nonlinearity"]
    if found.get("padding") == "valid":
        found["padding"] = 0
    elif found.get("padding") == "same":
        found["padding"] = same_padding(found.get("kernel_size"), found.get("stride", 1), found.get("dilation", 1))
    return found


WORDS = Words(layer=layer)
