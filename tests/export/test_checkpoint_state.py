"""`--with-state`: what is beside the weights is kept, in every format that has a place for it, and said where not."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jumar.base.errors import InputError, OutputError
from jumar.export import CheckpointOptions, export_checkpoint
from jumar.export.formats.mindspore import read_mindspore

KEEP = CheckpointOptions(with_state=True)


def assert_equal(actual: Any, expected: Any, way: str = "") -> None:
    assert type(actual) is type(expected) or isinstance(expected, dict), way
    if isinstance(expected, torch.Tensor):
        assert torch.equal(actual, expected), way
    elif isinstance(expected, dict):
        assert list(actual) == list(expected), way
        for key, value in expected.items():
            assert_equal(actual[key], value, f"{way}.{key}")
    elif isinstance(expected, (list, tuple)):
        assert len(actual) == len(expected), way
        for at, value in enumerate(expected):
            assert_equal(actual[at], value, f"{way}.{at}")
    else:
        assert actual == expected or (expected != expected and actual != actual), way  # noqa: PLR0124


def trained(make=torch.optim.Adam, **options: Any):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
    optimizer = make(model.parameters(), lr=0.01, **options)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(5, 3)).square().sum().backward()
        optimizer.step()
    return model, optimizer


def checkpoint(model, optimizer) -> dict[str, Any]:
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)
    return {
        "epoch": 3, "model": model.state_dict(), "optimizer": optimizer.state_dict(),
        "scheduler": scheduler.state_dict(), "scaler": torch.amp.GradScaler("cpu").state_dict(),
        "amp": {"loss_scaler0": {"loss_scale": 65536.0, "unskipped": 3}}, "best": math.inf, "worst": math.nan,
        "more": (1, b"bytes", 1 + 2j, torch.float16, {5: "number"}, [], {}, {"$tensor": "no tensor"}),
    }  # fmt: skip


@pytest.mark.parametrize("chain", [["pt"], ["safetensors", "pth"], ["pth", "safetensors", "safetensors", "pt"]])
def test_everything_comes_back_through_files_that_have_a_place_for_it(tmp_path, chain) -> None:
    model, optimizer = trained()
    expected = checkpoint(model, optimizer)
    path = tmp_path / "in.pth"
    torch.save(expected, path)
    for number, suffix in enumerate(chain):
        report = export_checkpoint(path, tmp_path / f"{number}.{suffix}", KEEP)
        assert (report.state_kept, report.left_behind) == (tuple(key for key in expected if key != "model"), ())
        path = tmp_path / f"{number}.{suffix}"
    back = torch.load(path, weights_only=True)
    assert_equal(back, expected)
    other = trained()[1]
    other.load_state_dict(back["optimizer"])
    assert_equal(other.state_dict(), optimizer.state_dict())


def test_prefixes_and_dtype_touch_the_weights_alone(tmp_path) -> None:
    model, optimizer = trained()
    wrapped = {f"module.{key}": value for key, value in model.state_dict().items()}
    torch.save({"net": {"g": wrapped, "note": "x"}, "optimizer": optimizer.state_dict()}, tmp_path / "in.pth")
    export_checkpoint(tmp_path / "in.pth", tmp_path / "out.pt", CheckpointOptions(with_state=True, dtype="bf16"))
    back = torch.load(tmp_path / "out.pt", weights_only=True)
    assert back["net"]["g"]["0.weight"].dtype is torch.bfloat16
    assert back["net"]["note"] == "x"
    assert_equal(back["optimizer"], optimizer.state_dict())


def test_without_the_option_it_is_left_behind_as_before(tmp_path) -> None:
    torch.save(checkpoint(*trained()), tmp_path / "in.pth")
    report = export_checkpoint(tmp_path / "in.pth", tmp_path / "out.pt")
    assert "optimizer" in report.left_behind
    assert report.state_kept == ()
    assert "0.weight" in torch.load(tmp_path / "out.pt", weights_only=True)


# Not b"": torch.save writes it as a call of `bytes`, which torch.load(weights_only=True) refuses.
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(min_size=1, max_size=5)
    | st.complex_numbers(allow_nan=False) | st.sampled_from([torch.float16, torch.bool])
    | st.builds(torch.full, st.just((2,)), st.integers(-5, 5), dtype=st.sampled_from([torch.int8, torch.bfloat16])),
    lambda inner: st.lists(inner, max_size=3) | st.tuples(inner, inner)
    | st.dictionaries(st.text(max_size=4) | st.integers(), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


@given(VALUES)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_plain_value_comes_back_through_safetensors(tmp_path, value) -> None:
    options = CheckpointOptions(with_state=True, only="model", force=True)
    torch.save({"model": {"w": torch.ones(1)}, "value": value}, tmp_path / "in.pth")
    export_checkpoint(tmp_path / "in.pth", tmp_path / "x.safetensors", options)
    export_checkpoint(tmp_path / "x.safetensors", tmp_path / "out.pth", options)
    assert_equal(torch.load(tmp_path / "out.pth", weights_only=True)["value"], value)


def moments_of(tmp_path: Path, whole: dict[str, Any]):
    torch.save(whole, tmp_path / "in.pth")
    report = export_checkpoint(tmp_path / "in.pth", tmp_path / "out.ckpt", KEEP)
    return report, read_mindspore(tmp_path / "out.ckpt")


def test_the_moments_of_adam_get_mindspores_names(tmp_path) -> None:
    model, optimizer = trained()
    report, found = moments_of(tmp_path, checkpoint(model, optimizer))
    named = {"0.weight": "0.weight", "1.weight": "1.gamma", "1.bias": "1.beta", "2.bias": "2.bias"}
    parameters = dict(model.named_parameters())
    for own, theirs in named.items():
        state = optimizer.state[parameters[own]]
        assert torch.equal(found[f"moment1.{theirs}"], state["exp_avg"])
        assert torch.equal(found[f"moment2.{theirs}"], state["exp_avg_sq"])
    assert found["global_step"].tolist() == [3]
    assert float(found["beta1_power"]) == pytest.approx(0.9**3)
    assert report.state_kept == ("optimizer",)
    assert "no place for epoch, scheduler" in report.state_reason


def test_the_momentum_of_sgd_gets_mindspores_names(tmp_path) -> None:
    model, optimizer = trained(torch.optim.SGD, momentum=0.9)
    _, found = moments_of(tmp_path, {"model": model.state_dict(), "optimizer": optimizer.state_dict()})
    weight = dict(model.named_parameters())["1.weight"]
    assert torch.equal(found["moments.1.gamma"], optimizer.state[weight]["momentum_buffer"])


def test_moments_whose_parameter_is_not_certain_are_left_behind_and_it_is_said(tmp_path) -> None:
    model, optimizer = trained()
    two = optimizer.state_dict()
    two["param_groups"] = [{**two["param_groups"][0], "params": [0, 1, 2]},
                           {**two["param_groups"][0], "params": [3, 4, 5]}]  # fmt: skip
    report, found = moments_of(tmp_path, {"model": model.state_dict(), "optimizer": two})
    assert not any(name.startswith("moment") for name in found)
    assert "several groups" in report.state_reason
    assert report.left_behind == ("optimizer",)


def test_moments_of_several_groups_with_names_are_taken_by_them(tmp_path) -> None:
    model, optimizer = trained()
    named = list(model.named_parameters())
    state = optimizer.state_dict()
    # The second group has the first parameters: only the names tell.
    order = [4, 5, 0, 1, 2, 3]
    names = [named[at][0] for at in order]
    state["state"] = {number: state["state"][at] for number, at in enumerate(order)}
    group = state["param_groups"][0]
    state["param_groups"] = [
        {**group, "params": [0, 1], "param_names": names[:2]},
        {**group, "params": [2, 3, 4, 5], "param_names": names[2:]},
    ]
    _, found = moments_of(tmp_path, {"model": model.state_dict(), "optimizer": state})
    assert torch.equal(found["moment1.0.weight"], optimizer.state[named[0][1]]["exp_avg"])


def test_keras_has_no_place_for_a_state(tmp_path) -> None:
    torch.save(checkpoint(*trained()), tmp_path / "in.pth")
    with pytest.raises(OutputError, match="can hold weights only; write a"):
        export_checkpoint(tmp_path / "in.pth", tmp_path / "out.h5", KEEP)
    assert not (tmp_path / "out.h5").exists()


def test_a_file_of_state_that_exists_is_not_replaced(tmp_path) -> None:
    torch.save(checkpoint(*trained()), tmp_path / "in.pth")
    (tmp_path / "out.state.safetensors").write_bytes(b"mine")
    with pytest.raises(OutputError, match=r"out\.state\.safetensors exists"):
        export_checkpoint(tmp_path / "in.pth", tmp_path / "out.safetensors", KEEP)
    assert not (tmp_path / "out.safetensors").exists()
    assert (tmp_path / "out.state.safetensors").read_bytes() == b"mine"


@pytest.mark.parametrize("text", ["{", '{"$tensor":"gone"}', '{"$exec":1}', '{"$bytes":"%"}', "[" * 5000])
def test_a_damaged_state_is_one_sentence(tmp_path, text) -> None:
    torch.save(checkpoint(*trained()), tmp_path / "in.pth")
    export_checkpoint(tmp_path / "in.pth", tmp_path / "x.safetensors", KEEP)
    from jumar.export.formats.safetensors import write_safetensors

    write_safetensors(tmp_path / "x.state.safetensors", {}, metadata={"jumar_state": text})
    with pytest.raises(InputError, match="state") as caught:
        export_checkpoint(tmp_path / "x.safetensors", tmp_path / "out.pt", KEEP)
    assert "\n" not in str(caught.value)
