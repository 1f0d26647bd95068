"""`torch_npu.distributed.run`: torchrun's options, and one of the vendor's."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Sequence

from torch.distributed.argparse_util import env
from torch.distributed.run import get_args_parser

__all__ = ["parse_args"]


def parse_args(args: Sequence[str]) -> Namespace:
    """Return torchrun's options. The vendor's own, a store with a proxy on each node, is read and changes nothing."""
    parser = get_args_parser()
    parser.add_argument("--enable_tiered_parallel_tcpstore", action=env, type=str, default="false")
    return parser.parse_args(list(args))
