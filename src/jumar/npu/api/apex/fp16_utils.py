"""`apex.fp16_utils`: float16 models and float32 master weights by hand."""

from __future__ import annotations

from jumar.amp.apex import fp16_utils
from jumar.amp.apex.fp16_utils import *  # noqa: F403  # the names of fp16_utils.__all__

__all__ = list(fp16_utils.__all__)
