"""Ranks and groups."""

from jumar.tfadapter.bridge.operators import (
    create_group,
    destroy_group,
    get_local_rank_id,
    get_local_rank_size,
    get_rank_id,
    get_rank_size,
)
