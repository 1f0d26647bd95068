"""What each level of `jumar.amp` does, against torch.autocast and casts written by hand, over generated models."""

from __future__ import annotations

import copy
import inspect
import subprocess
import sys
from typing import Any

import pytest
import torch
from amp_models import batches, layer_lists, loss_of, network, same, sgd, values
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from jumar import amp
from jumar.amp.state import STATE
from jumar.base.errors import InputError

HALVES = st.sampled_from([torch.bfloat16, torch.float16])


def trained(model: nn.Module, optimizer: torch.optim.Optimizer, number: int = 3) -> list[float]:
    """Train with amp; return the losses."""
    losses = []
    for batch in batches(number):
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        with amp.scale_loss(loss, optimizer) as scaled:
            scaled.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@given(layers=layer_lists, half=HALVES, combine=st.booleans())
def test_o1_is_torch_autocast(layers: tuple[str, ...], half: torch.dtype, combine: bool) -> None:
    STATE.stop_casts()  # of the example before
    plain, model = network(layers), network(layers)
    optimizer, expected = sgd(plain), []
    scaler = torch.amp.GradScaler("cpu", enabled=half is torch.float16)
    for batch in batches(3):
        with torch.autocast("cpu", dtype=half):
            loss = loss_of(plain, batch)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        expected.append(loss.item())
    model, optimizer = amp.initialize(
        model, sgd(model), opt_level="O1", half_type=half, combine_grad=combine, verbosity=0
    )
    assert trained(model, optimizer) == expected
    for name, value in plain.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value, rtol=1e-6, atol=1e-7)


def by_hand(layers: tuple[str, ...], half: torch.dtype, scale: float, *, keep: bool) -> tuple[list[float], list[Any]]:
    """Train a half model with float32 masters without amp; return the losses and the masters."""
    model = network(layers)
    for module in model.modules():
        if not list(module.children()) and not (keep and isinstance(module, nn.BatchNorm1d)):
            module.to(half)
    weights = list(model.parameters())
    masters = [weight.detach().float().clone().requires_grad_() for weight in weights]
    optimizer = torch.optim.SGD(masters, lr=0.1, momentum=0.9, weight_decay=1e-3)
    losses = []
    for inputs, target in batches(3):
        loss = nn.functional.cross_entropy(model(inputs.to(half)).float(), target)
        for weight in weights:
            weight.grad = None
        (loss * scale).backward()
        for weight, master in zip(weights, masters, strict=True):
            master.grad = None if weight.grad is None else weight.grad.float() * (1 / scale)
        optimizer.step()
        with torch.no_grad():
            for weight, master in zip(weights, masters, strict=True):
                weight.copy_(master)
        losses.append(loss.item())
    return losses, masters


@given(layers=layer_lists, half=HALVES, keep=st.booleans(), combine=st.booleans())
def test_o2_is_a_half_model_with_masters(layers: tuple[str, ...], half: torch.dtype, keep: bool, combine: bool) -> None:
    expected, masters = by_hand(layers, half, 128.0, keep=keep)
    model = network(layers)
    model, optimizer = amp.initialize(
        model, sgd(model), opt_level="O2", half_type=half, keep_batchnorm_fp32=keep, loss_scale=128.0,
        combine_grad=combine, verbosity=0,
    )  # fmt: skip
    assert trained(model, optimizer) == expected
    for found, master in zip(amp.master_params(optimizer), masters, strict=True):
        torch.testing.assert_close(found, master, rtol=1e-6, atol=1e-7)
    dtypes = {type(module).__name__: module.weight.dtype for module in model if hasattr(module, "weight")}
    assert dtypes["Linear"] is half
    assert dtypes.get("BatchNorm1d", torch.float32 if keep else half) is (torch.float32 if keep else half)


def test_o0_and_o3_are_one_type_throughout() -> None:
    plain = network()
    optimizer, expected = sgd(plain), []
    for batch in batches(3):
        loss = loss_of(plain, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        expected.append(loss.item())
    model = network()
    model, optimizer = amp.initialize(model, sgd(model), opt_level="O0", verbosity=0)
    assert trained(model, optimizer) == expected
    model = network()
    model, optimizer = amp.initialize(model, sgd(model), opt_level="O3", verbosity=0)
    assert {parameter.dtype for parameter in model.parameters()} == {torch.bfloat16}
    assert trained(model, optimizer) == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("combine", [False, True])
def test_o3_trains_the_same_with_combined_gradients(combine: bool) -> None:
    plain, model = network(), network()
    plain, optimizer = amp.initialize(plain, sgd(plain), opt_level="O3", verbosity=0)
    expected = trained(plain, optimizer)
    model, optimizer = amp.initialize(model, sgd(model), opt_level="O3", combine_grad=combine, verbosity=0)
    assert trained(model, optimizer) == expected


def test_the_cpu_gets_bfloat16_and_is_told_why(capsys: pytest.CaptureFixture[str]) -> None:
    model = amp.initialize(network(), opt_level="O2")
    assert model[0].weight.dtype is torch.bfloat16
    told = capsys.readouterr().out
    assert "bfloat16 model with float32 batch normalization" in told
    assert "it has float32's range, so gradients need no loss scale" in told
    assert amp.state_dict() == {"loss_scaler0": {"loss_scale": 1.0, "unskipped": 0}}
    asked = amp.initialize(network(), opt_level="O2", half_type=torch.float16)
    assert asked[0].weight.dtype is torch.float16
    assert "float32's range" not in capsys.readouterr().out
    assert amp.initialize(network(), opt_level="O2", cast_model_type=torch.float16)[0].weight.dtype is torch.float16


def test_checkpoints_are_float32_and_hold_the_masters() -> None:
    model = network()
    model, optimizer = amp.initialize(model, sgd(model), opt_level="O2", verbosity=0)
    assert {value.dtype for value in model.state_dict().values()} == {torch.float32, torch.int64}
    trained(model, optimizer)
    saved = model.state_dict()
    weight, master = model[0].weight, next(iter(amp.master_params(optimizer)))
    assert torch.equal(saved["0.weight"], master)
    assert not torch.equal(master, weight.float())
    assert torch.equal(network_of(saved)[0].weight, master)
    with torch.no_grad():
        weight.clamp_(-0.01, 0.01)  # a script that changes the weight itself
    assert torch.equal(model.state_dict()["0.weight"], weight.float())


def network_of(saved: dict[str, torch.Tensor]) -> nn.Sequential:
    plain = network(seed=7)
    plain.load_state_dict(saved)
    return plain


@given(
    level=st.sampled_from(["O0", "O1", "O2", "O3"]), half=HALVES, combine=st.booleans(), optimizer_first=st.booleans()
)
def test_a_run_that_is_resumed_goes_on_equally(
    level: str, half: torch.dtype, combine: bool, optimizer_first: bool
) -> None:
    options: dict[str, Any] = {"opt_level": level, "half_type": half, "combine_grad": combine, "verbosity": 0}
    model = network()
    model, optimizer = amp.initialize(model, sgd(model), **options)
    trained(model, optimizer)
    saved = copy.deepcopy([model.state_dict(), optimizer.state_dict(), amp.state_dict()])
    expected = trained(model, optimizer), values(model)
    other = network(seed=5)
    other, optimizer = amp.initialize(other, sgd(other), **options)
    for step in (1, 0) if optimizer_first else (0, 1):
        (optimizer if step else other).load_state_dict(saved[step])
    amp.load_state_dict(saved[2])
    assert (trained(other, optimizer), True) == (expected[0], same(values(other), expected[1]))


def test_a_copy_of_a_model_calls_its_own_forward() -> None:
    model = amp.initialize(network(), opt_level="O2", verbosity=0)
    twin = copy.deepcopy(model)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.zero_()
    inputs = batches(1)[0][0]
    assert twin(inputs).abs().max() == 0
    assert model(inputs).abs().max() > 0
    assert list(inspect.signature(model.forward).parameters) == list(inspect.signature(network().forward).parameters)


def test_outputs_are_cast_as_asked() -> None:
    inputs = batches(1)[0][0]
    assert amp.initialize(network(), opt_level="O2", verbosity=0)(inputs).dtype is torch.float32
    model = amp.initialize(network(), opt_level="O2", cast_model_outputs=torch.float64, verbosity=0)
    assert model(inputs).dtype is torch.float64
    model = amp.initialize(network(), opt_level="O1", cast_model_outputs=torch.float32, verbosity=0)
    assert model(inputs).dtype is torch.float32


def test_registered_functions_get_their_type() -> None:
    module: Any = type(sys)("mine")
    module.shown = lambda x: x.dtype
    module.half = lambda x: x.dtype
    module.widest = lambda x, y: (x.dtype, y.dtype)
    amp.register_float_function(module, "shown")
    amp.register_half_function(module, "half")
    amp.register_promote_function(module, "widest")
    amp.initialize(network(), opt_level="O1", verbosity=0)
    half, whole = torch.ones(2, dtype=torch.bfloat16), torch.ones(2)
    assert (module.shown(half), module.half(whole)) == (torch.float32, torch.bfloat16)
    assert module.widest(half, whole) == (torch.float32, torch.float32)
    assert (whole[None] @ whole[:, None]).dtype is torch.bfloat16
    with amp.disable_casts():
        assert (whole[None] @ whole[:, None]).dtype is torch.float32
        assert module.shown(half) is torch.bfloat16
    with pytest.raises(ValueError, match="No function named nothing"):
        amp.register_half_function(module, "nothing")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda: amp.initialize(network(), opt_level="02"), "the letter O, not the number zero"),
        (
            lambda: amp.initialize(network(), opt_level="O1", keep_batchnorm_fp32=True),
            "so keep_batchnorm_fp32 should be None",
        ),
        (lambda: amp.initialize(network(), opt_level="O1", master_weights=True), "doesn't make sense"),
        (lambda: amp.initialize(network(), opt_level="O1", cast_model_type=torch.float16), "half_type chooses"),
        (lambda: amp.initialize(network(), opt_level="O2", half_type=torch.float64), "half_type must be"),
        (
            lambda: amp.initialize(network(), half_type=torch.float16, cast_model_type=torch.bfloat16, opt_level="O2"),
            "give one of the two",
        ),
        (lambda: amp.initialize(network(), opt_level="O2", loss_scale="big"), "above 0 or 'dynamic'; got 'big'"),
        (lambda: amp.initialize(network(), opt_level="O2", loss_scale=-1), "above 0 or 'dynamic'; got -1"),
        (lambda: amp.initialize(network(), opt_level="O2", keep_batchnorm_fp32="yes"), "'True' or 'False'"),
        (lambda: amp.initialize(network().half(), opt_level="O2"), "you do not need to call"),
        (lambda: amp.initialize(network().bfloat16(), opt_level="O2"), "you do not need to call"),
        (lambda: amp.initialize(nn.DataParallel(network()), opt_level="O2"), "AFTER"),
        (lambda: amp.initialize(None, opt_level="O2"), "a single model or a list of models"),
        (lambda: amp.initialize(network(), 3, opt_level="O2"), "a single optimizer or a list of optimizers"),
        (lambda: amp.scale_loss(torch.ones(()), sgd(network())).__enter__(), "has not been initialized"),
        (lambda: amp.load_state_dict({"scale": 1}), "Unexpected key"),
        (lambda: amp.load_state_dict({"loss_scaler": {}}), "Unexpected key"),
    ],
)
def test_wrong_use_is_an_error_that_says_what_to_do(change: Any, message: str) -> None:
    with pytest.raises(RuntimeError, match=message):
        change()


def test_an_optimizer_is_given_once_and_a_loss_has_its_scaler() -> None:
    model = network()
    model, optimizer = amp.initialize(model, sgd(model), verbosity=0)
    with pytest.raises(RuntimeError, match="should only be passed through"):
        amp.initialize(network(), optimizer, verbosity=0)
    with pytest.raises(RuntimeError, match="loss_id must be from 0 to 0; got 1"):
        amp.scale_loss(torch.ones(()), optimizer, loss_id=1).__enter__()
    with pytest.raises(RuntimeError, match="SGD was not given to"):
        amp.scale_loss(torch.ones(()), sgd(network())).__enter__()
    with pytest.raises(RuntimeError, match="does not support closure"):
        optimizer.step(lambda: 1.0)
    with pytest.raises(NotImplementedError, match=r"use apex\.amp\.initialize"):
        amp.init()


def test_parameters_that_cannot_be_combined_are_named() -> None:
    shared = torch.nn.Parameter(torch.zeros(4))
    model = nn.Module()
    model.a, model.b = shared, nn.Parameter(shared.data)
    model, optimizer = amp.initialize(
        model, torch.optim.SGD(model.parameters(), lr=0.1), combine_grad=True, verbosity=0
    )
    with pytest.raises(InputError, match="share memory"), amp.scale_loss(model.a.sum(), optimizer):
        pass


def test_not_enabled_means_untouched() -> None:
    model = network()
    optimizer = sgd(model)
    assert amp.initialize(model, optimizer, enabled=False, opt_level="O2") == (model, optimizer)
    loss = loss_of(model, batches(1)[0])
    with amp.scale_loss(loss, optimizer) as scaled:
        assert scaled is loss
    assert amp.state_dict() == {}


def test_the_room_is_there_without_torch_and_apex_without_a_device() -> None:
    code = (
        "import sys, jumar; jumar.amp; assert 'torch' not in sys.modules\n"
        "assert jumar.amp.install()\n"
        "import apex\nfrom apex import amp, parallel, fp16_utils, normalization\n"
        "from apex.optimizers import NpuFusedSGD, FusedAdam\n"
        "assert amp.initialize is jumar.amp.initialize\n"
        "import torch\nassert normalization.FusedLayerNorm(4)(torch.ones(2, 4)).shape == (2, 4)\n"
        "try:\n    import apex.transformer\nexcept ModuleNotFoundError as error:\n    print(error)\n"
        "jumar.amp.uninstall()\n"
        "try:\n    import apex\nexcept ModuleNotFoundError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout.splitlines() == [
        "No module named 'apex.transformer': of apex Jumar has amp, fp16_utils, normalization, optimizers, parallel.",
        "No module named 'apex'",
    ]
