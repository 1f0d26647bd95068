from __future__ import annotations

import torch
from torch import nn

from jumar.capture.watch.naming import ModuleNames, named_modules, unwrap


def outermost(names: ModuleNames, module: nn.Module) -> str | None:
    return names.path(module, outermost=True, parent="")


def test_the_first_outermost_module_with_parameters_is_the_model(conv_net) -> None:
    names, model = ModuleNames(), conv_net()
    assert outermost(names, nn.CrossEntropyLoss()) == "CrossEntropyLoss"
    assert outermost(names, model) == ""
    assert names.path(model.layer1[0], outermost=False, parent="") == "layer1.0"


def test_further_outermost_modules_are_called_after_their_class() -> None:
    names = ModuleNames(nn.Linear(1, 1))
    first, second = nn.Linear(1, 1), nn.Linear(1, 1)
    assert [outermost(names, first), outermost(names, second), outermost(names, first)] == [
        "Linear",
        "Linear#2",
        "Linear",
    ]


def test_wrappers_leave_no_trace_in_paths(conv_net) -> None:
    model = conv_net()
    wrapped = nn.DataParallel(model)
    names = ModuleNames()
    assert outermost(names, wrapped) is None
    assert names.path(model, outermost=False, parent="") == ""
    assert names.path(model.fc, outermost=False, parent="") == "fc"
    assert unwrap(torch.optim.swa_utils.AveragedModel(wrapped)).__class__ is conv_net


def test_names_are_those_of_named_modules(conv_net) -> None:
    model = conv_net()
    assert dict(named_modules(model)) == dict(model.named_modules())
    assert [name for name, _ in named_modules(model)] == [name for name, _ in model.named_modules()]


def test_a_wrapper_within_a_model_leaves_no_trace() -> None:
    inner = nn.Sequential(nn.Linear(1, 1))
    model = nn.ModuleDict({"body": nn.DataParallel(inner)})
    assert [name for name, _ in named_modules(model)] == ["", "body", "body.0"]


def test_a_module_made_on_the_fly_is_named_below_its_caller() -> None:
    names = ModuleNames(nn.Linear(1, 1))
    assert names.path(nn.GELU(), outermost=False, parent="blocks.3") == "blocks.3.GELU"


def test_a_parameter_knows_the_module_that_owns_it(conv_net) -> None:
    model = conv_net()
    names = ModuleNames(model)
    assert names.of_parameter(model.layer1[0].weight) == ("layer1.0", "Conv2d")
    assert names.of_parameter(nn.Parameter(torch.ones(1))) == ("", "")
