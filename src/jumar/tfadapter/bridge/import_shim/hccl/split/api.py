"""Split of gradients."""

from jumar.tfadapter.bridge.operators import set_split_strategy_by_idx, set_split_strategy_by_size
