"""Files that Keras 2 and 3, TensorFlow, MindSpore and torch.distributed wrote: names and every bit."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch

from jumar.base.errors import InputError
from jumar.export import CheckpointOptions, export_checkpoint
from jumar.export.formats.opening import open_document
from jumar.export.formats.weights import open_weights

FILES = Path(__file__).parents[1] / "fixtures" / "checkpoints"
VARIABLES = {
    "conv/kernel": (2, 2, 1, 2), "conv/bias": (2,), "bn/gamma": (2,), "bn/beta": (2,), "bn/moving_mean": (2,),
    "bn/moving_variance": (2,), "head/kernel": (8, 2), "head/bias": (2,),
}  # fmt: skip
"""Of the model of fixtures/checkpoints/make.py, in the order in which it numbers them."""


def values(number: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Return what make.py gave to a variable."""
    count = int(np.prod(shape, dtype=np.int64))
    return torch.from_numpy((number + np.arange(count) / 8).astype("float32").reshape(shape))


def read(path: Path) -> dict[str, torch.Tensor]:
    with open_weights(path) as weights:
        found = {name: weights.read(name) for name in weights.names()}
        assert {name: weights.info(name).shape for name in found} == {name: tuple(t.shape) for name, t in found.items()}
    return found


def of_classes(name: str) -> str:
    """Return a name by the layer's class, which is all that Keras 2 writes with numbered variables."""
    layer, _, variable = name.partition("/")
    return f"{ {'conv': 'conv2d', 'bn': 'batch_normalization', 'head': 'dense'}[layer] }/{variable}"


@pytest.mark.parametrize(
    ("file", "rename"),
    [
        ("keras2_layers.h5", str), ("keras2_whole.h5", str), ("keras2_objects.index", str), ("keras2_objects", str),
        ("keras2.weights.h5", of_classes), ("keras2.keras", of_classes), ("keras3.weights.h5", str),
        ("keras3.keras", str), ("keras3_whole.h5", "net/{}".format), ("keras3_objects.index", "net/{}".format),
    ],
)  # fmt: skip
def test_every_variable_of_keras_is_found_under_a_name_that_a_person_knows(file, rename) -> None:
    found = read(FILES / file)
    assert set(found) == {rename(name) for name in VARIABLES}
    for number, (name, shape) in enumerate(VARIABLES.items()):
        assert torch.equal(found[rename(name)], values(number, shape)), name


def test_the_optimizer_of_tensorflow_is_no_weight() -> None:
    for name in ("keras2_objects.index", "keras3_objects.index"):
        training = open_document(FILES / name).root["training"]
        assert "step" in training
        assert any("optimizer" in key for key in training)


def test_a_checkpoint_of_names_gives_its_variables_joins_slices_and_keeps_bfloat16() -> None:
    found = read(FILES / "names.index")
    assert list(found) == ["dense/bias", "dense/kernel", "half", "table"]
    assert torch.equal(found["dense/kernel"], values(0, (3, 2)))
    assert torch.equal(found["table"], values(2, (200, 2)))
    assert torch.equal(found["half"], values(3, (4,)).bfloat16())
    training = open_document(FILES / "names.index").root["training"]
    assert {"dense/kernel/Adam", "dense/kernel/Adam_1", "beta1_power", "global_step"} <= set(training)


def test_a_checkpoint_of_mindspore_gives_every_type() -> None:
    found = read(FILES / "mindspore_types.ckpt")
    assert len(found) == 13
    assert {str(one.dtype).removeprefix("torch.") for one in found.values()} == {
        name.removeprefix("of.").removesuffix("_") for name in found
    }
    assert all(one.to(torch.float64).tolist() == [[1, 0, 1]] for one in found.values())


def test_a_checkpoint_of_mindspore_with_a_checksum_and_an_optimizer_becomes_pytorchs(tmp_path) -> None:
    report = export_checkpoint(FILES / "mindspore_adam.ckpt", tmp_path / "out.pth", CheckpointOptions(with_state=True))
    whole = torch.load(tmp_path / "out.pth", weights_only=True)
    assert (report.state_kept, report.left_out) == (("mindspore_state",), ())
    assert torch.equal(whole["model"]["3.weight"], values(6, (2, 8)))
    assert {"moment1.3.weight", "moment2.3.weight", "beta1_power"} <= set(whole["mindspore_state"])


def test_shards_of_two_ranks_are_joined_along_rows_and_columns(tmp_path) -> None:
    export_checkpoint(FILES / "distributed", tmp_path / "out.pth", CheckpointOptions(with_state=True))
    whole = torch.load(tmp_path / "out.pth", weights_only=True)
    assert torch.equal(whole["model"]["rows"], values(0, (5, 4)))
    assert torch.equal(whole["model"]["columns"], values(1, (5, 4)))
    assert torch.equal(whole["model"]["whole"], values(2, (3,)))
    assert (whole["epoch"], whole["optimizer"]) == (3, {"param_groups": [{"lr": 0.5, "params": [0, 1]}]})


def test_a_missing_rank_is_named(tmp_path) -> None:
    import shutil

    shutil.copytree(FILES / "distributed", tmp_path / "part")
    (tmp_path / "part" / "__0_0.distcp").unlink()
    with pytest.raises(InputError, match=r"lacks __0_0\.distcp; copy the files of all ranks"):
        read(tmp_path / "part")


LOADS = """
import sys
import numpy as np
import tensorflow as tf
layers = tf.keras.layers
model = tf.keras.Sequential([
    layers.Input((3, 3, 1)), layers.Conv2D(2, 2, name="conv"), layers.BatchNormalization(name="bn"),
    layers.Flatten(name="flat"), layers.Dense(2, name="head"),
])
model.load_weights(sys.argv[1], by_name=True)
print("sums", *[float(np.sum(value)) for value in model.get_weights()])
"""


@pytest.mark.slow
@pytest.mark.parametrize("environment", ["tensorflow", "new_tensorflow"])
def test_keras_itself_loads_by_name_what_is_written(tmp_path, environment, request) -> None:
    python = request.getfixturevalue(environment)
    export_checkpoint(FILES / "keras3.keras", tmp_path / "x.pth")
    export_checkpoint(tmp_path / "x.pth", tmp_path / "out.h5")
    done = subprocess.run(
        [str(python), "-c", LOADS, str(tmp_path / "out.h5")], capture_output=True, text=True, check=True
    )
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("sums")]
    expected = [float(values(number, shape).sum()) for number, shape in enumerate(VARIABLES.values())]
    assert [float(word) for word in line.split()[1:]] == expected
