"""TensorFlow beside PyTorch and MindSpore: layers with an activation of their own, modules without a partner, names."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from framework_runs import Side, two_layers

from jumar.comparison import Comparison, compare
from jumar.comparison.model.frameworks.form import epsilon_reach
from jumar.comparison.model.frameworks.layers import alike, in_torch_words
from jumar.comparison.model.frameworks.tables import words_of
from jumar.comparison.model.frameworks.words import in_common_words, torch_optimizer
from jumar.comparison.model.renames import EPSILON_FORM, torch_parameter
from jumar.operators.layers import CLASSES, names_of
from jumar.recording.history.model import HistoryStep


def compared(folder: Path, reference: Side, target: Side) -> Comparison:
    return compare(reference.written(folder / "reference"), target.written(folder / "target"))


def codes(found: Comparison) -> list[str]:
    return [finding.code for finding in found.findings]


def statuses(found: Comparison, path: str, phase: str = "forward") -> set[str]:
    """Return how the calls of a module were judged."""
    diffs = (diff for diff in found.operators.judged() if (diff.module_path, diff.phase) == (path, phase))
    return {diff.status for diff in diffs if diff.kind == "module"}


@pytest.mark.parametrize("other", ["torch", "mindspore"])
@pytest.mark.parametrize("swapped", [False, True])
def test_an_activation_built_into_a_layer_is_compared_with_the_module_that_follows(
    tmp_path: Path, other: str, swapped: bool
) -> None:
    sides = [two_layers(other, "module"), two_layers("tensorflow", "built-in")]
    found = compared(tmp_path, *(sides[::-1] if swapped else sides))
    assert found.status == "agree", found.headline
    assert statuses(found, "fc1") == {"agree"}
    assert found.coverage.calls.compared == found.coverage.calls.target == 6
    assert "JM306" not in codes(found)


def test_a_wrong_activation_inside_a_layer_is_named(tmp_path: Path) -> None:
    found = compared(tmp_path, two_layers("torch", "module"), two_layers("tensorflow", "built-in", wrong=0.01))
    first = found.first_divergence
    assert first is not None
    assert (found.status, first.name, first.module_path) == ("diverge", "Linear / Dense", "fc1")


def test_a_built_in_activation_without_a_module_beside_it_is_not_judged_and_said(tmp_path: Path) -> None:
    found = compared(tmp_path, two_layers("torch", "function"), two_layers("tensorflow", "built-in"))
    assert found.status == "agree", found.headline
    assert statuses(found, "fc1") == {"not-compared"}
    assert statuses(found, "fc1", "backward") == statuses(found, "fc2") == {"agree"}
    assert found.coverage.values == 4  # not fc1's result, and the root shows no gradient of its input
    assert any("(fc1 (ReLU))" in note and "not compared" in note for note in found.notes)


def test_another_activation_than_that_of_the_module_is_not_taken_for_it(tmp_path: Path) -> None:
    target = two_layers("tensorflow", "built-in", activation="gelu", wrong=0.01)
    found = compared(tmp_path, two_layers("torch", "module"), target)
    assert found.status != "agree"
    assert any("fc1 (GELU)" in note for note in found.notes)


def last_layer(framework: str, *, probabilities: bool) -> Side:
    """Return a model of one layer, whose result is a probability or the number before the softmax."""
    x = np.random.default_rng(0).standard_normal((8, 4)).astype(np.float32)
    made = x * 2
    if probabilities:
        made = np.exp(made) / np.exp(made).sum(1, keepdims=True)
    kind = "Dense" if framework == "tensorflow" else "Linear"
    side = Side(
        framework,
        {"body": {"type": kind}, "head": {"type": kind, "activation": "softmax" if probabilities else "linear"}},
    )
    before = x * 3
    side.module("body", kind, before, x)
    side.module("head", kind, x, made)
    side.module("", "Net", before, made)
    side.loss(1.0)
    return side


def test_a_model_that_ends_in_probabilities_is_not_accused_of_its_last_layer(tmp_path: Path) -> None:
    found = compared(tmp_path, last_layer("torch", probabilities=False), last_layer("tensorflow", probabilities=True))
    assert found.status == "agree", found.headline
    assert statuses(found, "head") == statuses(found, "") == {"not-compared"}
    assert any("head (Softmax)" in note for note in found.notes)


def test_modules_without_parameters_need_no_partner_and_are_counted_and_said(tmp_path: Path) -> None:
    target = two_layers("tensorflow", "module", extra=("flat", "drop"))
    found = compared(tmp_path, two_layers("torch", "module"), target)
    assert found.status == "agree", found.headline
    assert (found.coverage.calls.compared, found.coverage.calls.target) == (8, 10)
    assert "has no parameters" in found.headline
    assert {call.name for call in found.unmatched_target} == {"Flatten", "Dropout"}


def test_a_last_module_that_one_side_has_alone_is_a_difference(tmp_path: Path) -> None:
    target = two_layers("tensorflow", "module")
    y = np.ones((16, 4), np.float32)
    target.module("soft", "Softmax", y, y / 4)
    found = compared(tmp_path, two_layers("torch", "module"), target)
    assert found.status == "differ"
    assert "Only the target runs Softmax" in found.headline


def test_a_layer_with_parameters_that_one_side_has_alone_is_a_difference(tmp_path: Path) -> None:
    target = two_layers("tensorflow", "module")
    z = np.ones((16, 4), np.float32)
    target.module_first("more", "Dense", z, z / 2)
    found = compared(tmp_path, two_layers("torch", "module"), target)
    assert found.status == "differ"
    assert "Only the target runs Dense" in found.headline


def test_layers_of_other_names_are_found_by_their_classes(tmp_path: Path) -> None:
    names = {"fc1": "dense", "act": "re_lu", "fc2": "dense_1"}
    found = compared(tmp_path, two_layers("torch", "module"), two_layers("tensorflow", "module").renamed(names))
    assert found.status == "agree", found.headline
    renamed = next(finding for finding in found.findings if finding.code == "JM312")
    assert "fc2 -> dense_1" in str(renamed.evidence["renames"])
    assert found.coverage.parameters.compared == 2


@pytest.mark.parametrize(("kind", "activation", "agrees"), [("Activation", "relu", True), ("ReLU", None, True)])
def test_an_activation_layer_is_the_module_of_its_activation(tmp_path: Path, kind, activation, agrees) -> None:
    target = two_layers("tensorflow", "module")
    target.info.layers["act"] = {"type": kind, "activation": activation}
    for number, row in enumerate(target.rows):
        if row.module_path == "act":
            target.rows[number] = Side.as_class(row, kind)
    found = compared(tmp_path, two_layers("torch", "module"), target)
    assert (found.status == "agree") is agrees
    assert statuses(found, "act") == {"agree"}


def recurrent(framework: str, *, wrong: float = 0.0) -> Side:
    """Return an LSTM with its parameters in the form of a framework."""
    numbers = np.random.default_rng(0)
    x, made, w, u, b = (
        numbers.standard_normal(s).astype(np.float32) for s in ((4, 5, 3), (4, 5, 2), (8, 3), (8, 2), 8)
    )
    side = Side(framework, {"rnn": {"type": "LSTM"}})
    side.module("rnn", "LSTM", x, made)
    side.module("", "Net", x, made)
    side.loss(1.0)
    torch = framework == "torch"
    side.optimizer("SGD", **({"lr": 0.1} if torch else {"learning_rate": 0.1}))
    names = ("weight_ih_l0", "weight_hh_l0") if torch else ("kernel", "recurrent_kernel")
    biases = ("bias_ih_l0", "bias_hh_l0") if torch else ("bias",)
    for name, value, error in zip(names, (w, u), (wrong, 0.0), strict=True):
        side.parameter("rnn", "LSTM", name, value / 2, (value * (1 + error)).astype(np.float32))
    for name in biases:
        side.parameter("rnn", "LSTM", name, b, b)
    return side


def test_weights_of_recurrent_layers_are_paired_and_biases_are_said_not_to_be(tmp_path: Path) -> None:
    found = compared(tmp_path, recurrent("torch"), recurrent("tensorflow"))
    assert found.status == "agree", found.headline
    parameters = found.coverage.parameters
    assert (parameters.compared, parameters.reference, parameters.target) == (2, 4, 3)
    note = next(note for note in found.notes if "another form" in note)
    assert "rnn.bias_ih_l0, rnn.bias_hh_l0, rnn.bias" in note
    assert any("twice as far" in note for note in found.notes)


def test_a_wrong_kernel_of_a_recurrent_layer_is_named(tmp_path: Path) -> None:
    found = compared(tmp_path, recurrent("torch"), recurrent("tensorflow", wrong=0.01))
    assert found.status == "diverge"
    assert "weight_ih_l0" in str(found.first_divergence)


def test_other_settings_of_a_layer_are_named(tmp_path: Path) -> None:
    reference, target = two_layers("torch", "module"), two_layers("tensorflow", "module")
    for side, settings in (
        (reference, {"type": "BatchNorm1d", "eps": 1e-5, "momentum": 0.1}),
        (target, {"type": "BatchNormalization", "epsilon": 1e-3, "momentum": 0.9}),
    ):
        x = np.ones((4, 3), np.float32)
        side.info.layers["norm"] = settings
        side.module_first("norm", str(settings["type"]), x, x)
    found = compared(tmp_path, reference, target)
    assert found.status == "differ"
    finding = next(finding for finding in found.findings if finding.code == "JM319")
    assert "norm (BatchNorm1d): eps 1e-05 against 0.001" in finding.message
    assert "momentum" not in finding.message
    assert "class" not in finding.message


CONV = {"type": "Conv2D", "filters": 4, "kernel_size": [3, 3], "strides": [1, 1], "dilation_rate": [1, 1]}
POOL = {"type": "MaxPooling2D", "pool_size": [2, 2]}


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (
            {**CONV, "padding": "same", "use_bias": False, "data_format": "channels_last", "groups": 2},
            {"kernel_size": [3, 3], "stride": [1, 1], "dilation": [1, 1], "padding": 1, "bias": False, "groups": 2},
        ),
        ({**CONV, "padding": "valid"}, {"kernel_size": [3, 3], "stride": [1, 1], "dilation": [1, 1], "padding": 0}),
        ({**POOL, "strides": None, "padding": "valid"}, {"kernel_size": [2, 2], "stride": [2, 2], "padding": 0}),
        ({"type": "BatchNormalization", "momentum": 0.75, "epsilon": 1e-3}, {"momentum": 0.25, "eps": 1e-3}),
        ({"type": "LayerNormalization", "epsilon": 1e-3, "axis": -1}, {"eps": 1e-3}),
        ({"type": "Dropout", "rate": 0.25, "seed": 3}, {"p": 0.25}),
        ({"type": "GlobalAveragePooling2D", "keepdims": False}, {"output_size": 1}),
        ({"type": "GRU", "reset_after": True}, {"reset_after": True, "batch_first": True}),
        ({"type": "Embedding", "input_dim": 9, "output_dim": 2}, {"num_embeddings": 9, "embedding_dim": 2}),
    ],
)  # fmt: skip
def test_settings_of_keras_layers_are_put_in_pytorchs_words(given, wanted) -> None:
    wanted = {"type": CLASSES.get(given["type"], given["type"]), **wanted}
    assert in_torch_words(given, "tensorflow") == wanted


@pytest.mark.parametrize(
    ("kind", "kernel", "stride", "wanted"),
    [
        ("Conv2D", [3, 5], [1, 1], [1, 2]),
        ("Conv2D", [1, 1], [2, 2], 0),
        ("Conv2D", [3, 3], [2, 2], "same (more at the end)"),
        ("Conv2D", [2, 2], [1, 1], "same (more at the end)"),
        ("Conv2DTranspose", [3, 3], [2, 2], None),
    ],
)
def test_same_padding_is_put_in_numbers_where_it_does_not_depend_on_the_input(kind, kernel, stride, wanted) -> None:
    given = {"type": kind, "kernel_size": kernel, "strides": stride, "padding": "same"}
    assert in_torch_words(given, "tensorflow").get("padding") == wanted
    if isinstance(wanted, list):
        of_torch = {"type": "Conv2d", "kernel_size": (3, 5), "stride": (1, 1), "dilation": (1, 1), "padding": "same"}
        assert in_torch_words(of_torch)["padding"] == wanted


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"type": "Activation", "activation": "gelu"}, "GELU"),
        ({"type": "Activation", "activation": "swish"}, "SiLU"),
        ({"type": "Activation", "activation": "my_own"}, ""),
        ({"type": "ReLU", "max_value": 6.0}, "ReLU6"),
        ({"type": "ReLU", "negative_slope": 0.1}, "LeakyReLU"),
        ({"type": "ReLU", "max_value": None}, "ReLU"),
        ({"type": "Functional"}, ""),
        ({"type": "Sequential"}, ""),
        ({"type": "DepthwiseConv2D"}, "Conv2d"),
    ],
)
def test_a_layer_of_keras_has_pytorchs_class_or_none(given, wanted) -> None:
    assert in_torch_words(given, "tensorflow")["type"] == wanted


def test_one_class_of_keras_may_be_several_of_pytorch() -> None:
    assert alike("BatchNorm2d", "BatchNorm1d")
    assert alike("", "Block")
    assert not alike("Linear", "Conv2d")
    assert not alike("MaxPool1d", "MaxPool2d")


@pytest.mark.parametrize(
    ("layer", "wanted"),
    [
        ({"type": "Dense", "activation": "relu"}, "ReLU"),
        ({"type": "Conv2D", "activation": "my_own"}, "my_own"),
        ({"type": "Dense", "activation": "linear"}, ""),
        ({"type": "Dense"}, ""),
        ({"type": "Activation", "activation": "relu"}, ""),
        ({"type": "LSTM", "activation": "tanh"}, ""),
    ],
)
def test_which_layers_have_an_activation_of_their_own(layer, wanted) -> None:
    assert words_of("tensorflow").built_in_activation(layer) == wanted


TF = words_of("tensorflow")


@pytest.mark.parametrize(
    ("name", "given", "wanted_name", "wanted"),
    [
        (
            "SGD", {"learning_rate": [0.1], "momentum": [0.9], "nesterov": [True]},
            "SGD", {"lr": [0.1], "momentum": [0.9], "nesterov": [True], "weight_decay": [0.0], "dampening": [0.0]},
        ),
        (
            "GradientDescentOptimizer", {"learning_rate": [0.1]},
            "SGD", {"lr": [0.1], "momentum": [0.0], "nesterov": [False], "weight_decay": [0.0], "dampening": [0.0]},
        ),
        (
            "Adam", {"learning_rate": [0.1], "beta_1": [0.9], "beta_2": [0.99], "epsilon": [1e-7], "decay": [0.5]},
            "Adam", {"lr": [0.1], "betas": [[0.9, 0.99]], "eps": [1e-7], "weight_decay": [0.0], "amsgrad": [False]},
        ),
        (
            "AdamOptimizer", {"learning_rate": [0.1], "beta1": [0.9], "beta2": [0.99]},
            "Adam", {"lr": [0.1], "betas": [[0.9, 0.99]], "weight_decay": [0.0], "amsgrad": [False]},
        ),
        (
            "Adam", {"learning_rate": [0.1, 0.1], "weight_decay": [0.01, 0.0]},
            "AdamW", {"lr": [0.1, 0.1], "weight_decay": [0.01, 0.0], "amsgrad": [False, False]},
        ),
        (
            "SGD", {"learning_rate": [0.1], "momentum": [0.9], "weight_decay": [0.01]},
            "SGD", {
                "lr": [0.1], "momentum": [0.9], "nesterov": [False], "dampening": [0.0],
                "weight_decay": ["0.01 (decoupled)"],
            },
        ),
        (
            "RMSprop", {"learning_rate": [0.1], "rho": [0.9]},
            "RMSprop",
            {"lr": [0.1], "alpha": [0.9], "weight_decay": [0.0], "momentum": [0.0], "centered": [False]},
        ),
        (
            "RMSPropOptimizer", {"learning_rate": [0.1], "decay": [0.8]},
            "RMSprop",
            {"lr": [0.1], "alpha": [0.8], "weight_decay": [0.0], "momentum": [0.0], "centered": [False]},
        ),
        ("Adadelta", {"rho": [0.9]}, "Adadelta", {"rho": [0.9], "weight_decay": [0.0]}),
        ("Nadam", {"learning_rate": [0.1]}, "Nadam", {"lr": [0.1], "weight_decay": [0.0]}),
    ],
)  # fmt: skip
def test_optimizers_of_tensorflow_are_put_in_pytorchs_words(name, given, wanted_name, wanted) -> None:
    found_name, found = torch_optimizer(name, given, TF)
    found.pop(EPSILON_FORM, None)
    assert (found_name, found) == (wanted_name, wanted)


def test_another_form_of_epsilon_is_allowed_for_up_to_its_size() -> None:
    adam = {"eps": 1e-7, "betas": [0.9, 0.99]}
    assert epsilon_reach(adam, adam) == 0.0
    assert epsilon_reach(adam, {**adam, EPSILON_FORM: "uncorrected"}) == pytest.approx(1e-6)
    mean = {"eps": 1e-8, "alpha": 0.99}
    assert epsilon_reach(mean, {**mean, EPSILON_FORM: "in the root"}) == pytest.approx(1e-3)


def test_names_of_parameters_depend_on_the_class_of_the_layer() -> None:
    names = ("kernel", "recurrent_kernel", "bias", "gamma")
    assert [torch_parameter("Dense", name) for name in names] == ["weight", "recurrent_kernel", "bias", "weight"]
    assert [torch_parameter("LSTM", name) for name in names[:3]] == ["weight_ih_l0", "weight_hh_l0", "bias"]


def test_no_name_of_a_class_or_parameter_means_two_things() -> None:
    for kind in ("classes", "parameters"):
        one, other = (names_of(framework)[kind] for framework in ("mindspore", "tensorflow"))
        assert all(one[name] == other[name] for name in one.keys() & other.keys())


def test_a_history_is_read_in_pytorchs_words(tmp_path: Path) -> None:
    class Long:
        info = two_layers("tensorflow", "module").info

        def history(self, rank: int = 0) -> object:
            del rank
            return History()

    class History:
        steps = (0,)
        warning = "cut short"

        def read(self, step: int) -> HistoryStep:
            settings = {"MomentumOptimizer": {"learning_rate": [0.1, 0.1], "momentum": [0.9, 0.8]}}
            return HistoryStep(step=step, settings=settings, calls={"MomentumOptimizer": 1})

    found = in_common_words(Long(), two_layers("torch", "module").written(tmp_path)).history()  # type: ignore[arg-type, attr-defined]
    assert found.warning == "cut short"
    assert found.read(0).calls == {"SGD": 1}
    assert found.read(0).settings["SGD"]["lr"] == [0.1]
    assert "momentum" not in found.read(0).settings["SGD"]
