"""Refuse custom CUDA code: extensions built from `.cu` files."""

from __future__ import annotations

import functools
from typing import NoReturn

from jumar.base.lazy import after_import
from jumar.device.cuda_stand_in.refused import refuse
from jumar.npu.api.alias.own_kernels import refuse_cuda_sources


def _refuse(what: str) -> NoReturn:
    refuse(what, "give the script's pure PyTorch path for this run")


def install() -> None:
    """Change the module when it is imported, which is slow."""
    after_import({"torch.utils.cpp_extension": functools.partial(refuse_cuda_sources, refuse=_refuse)})
