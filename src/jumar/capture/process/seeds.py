"""One starting point for the random numbers of runs that are to be compared.

A script that seeds nothing draws from generators that Python and NumPy start anew in every process.
Two runs of it cannot be compared unless both start from the same state.
"""

from __future__ import annotations

import random
from collections.abc import Mapping

from jumar.base.errors import UsageError

ENVIRONMENT = "JUMAR_SEED"
"""A whole number: Python's, NumPy's and PyTorch's generators start from it before the script does."""


def seed_generators(environ: Mapping[str, str]) -> None:
    """Seed the generators as `environ` asks; do nothing when it does not. Raises UsageError for no number."""
    text = environ.get(ENVIRONMENT)
    if not text:
        return
    if not text.isdecimal() or int(text) >= 2**32:
        raise UsageError(f"{ENVIRONMENT} must be a whole number below 2**32; got {text!r}. Unset it to go on.")
    import numpy as np
    import torch

    random.seed(int(text))
    np.random.seed(int(text))
    torch.manual_seed(int(text))
