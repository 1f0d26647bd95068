"""Rules of conversion keep the contract that Jumar ships for them, on the examples of their own pages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from jumar.convert.rules.order import ORDER
from jumar.convert.rules.subject.context import Context
from jumar.convert.syntax.source import parse
from jumar.testing import ConversionRuleContract

sys.path.insert(0, str(Path(__file__).parents[3] / "scripts"))

from convert_tables.examples import MARK, converted

ORDINARY = """
import json
import torch
from torch import nn


@torch.no_grad()
def error(model: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    return float(nn.functional.mse_loss(model(x), y))


print(json.dumps({"error": error(nn.Linear(4, 2), torch.randn(3, 4), torch.randn(3, 2))}))
"""
"""A program for the CPU, in which no rule of conversion finds anything."""

NOT_ALONE = {"JM106", "JM107", "JM114"}
"""JM106 needs the import that JM116 edits; the last two look at what the other rules proposed."""
STEPS = {
    step.code: step
    for step in ORDER
    if step.code not in NOT_ALONE and (known := converted(step.code)) is not None and known.path.endswith(".py")
    if not known.needs.startswith(("distributed", "-r"))
}


class TestRulesOfConversion(ConversionRuleContract):
    @pytest.fixture(autouse=True, params=STEPS)
    def _each(self, request: pytest.FixtureRequest) -> None:
        found = converted(request.param)
        assert found is not None
        self.options = found.options
        self.rule: Any = STEPS[request.param].load()
        self.bad = [f"{found.preamble}{MARK}{found.before}"]
        self.good = [ORDINARY]

    def trigger(self) -> Any:
        return STEPS[self.the_rule().code].trigger

    def subject(self, example: str) -> Context:
        return Context(parse(example.encode(), "example.py"), self.options)
