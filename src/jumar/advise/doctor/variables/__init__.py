"""Environment variables of CANN, HCCL, torch_npu, MindSpore and tuning: what each does, and which value is wrong."""

from __future__ import annotations

from jumar.advise.doctor.variables.table import (
    AREAS,
    SetVariable,
    misspelled,
    set_variables,
    variable_named,
    variables,
)
from jumar.advise.doctor.variables.variable import Variable

__all__ = ["AREAS", "SetVariable", "Variable", "misspelled", "set_variables", "variable_named", "variables"]
