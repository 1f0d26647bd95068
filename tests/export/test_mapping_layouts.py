"""Weights of real Keras and MindSpore layers under PyTorch's names: the models give the same outputs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from jumar.export.formats.mindspore import write_mindspore
from jumar.export.mapping.apply import apply_map
from jumar.export.mapping.propose import propose
from jumar.export.mapping.sides.checkpoint import of_checkpoint
from jumar.export.mapping.sides.side import Side, of_state
from jumar.export.mapping.transforms import text_of

KERAS = """
import sys, numpy as np, tensorflow as tf
from tensorflow import keras
from tensorflow.keras import layers
tf.random.set_seed(1)
rng = np.random.default_rng(0)
def image():
    i = keras.Input((8, 8, 3))
    x = layers.Conv2D(6, 3, padding="valid", name="first")(i)
    x = layers.BatchNormalization(name="norm", epsilon=1e-5)(x)
    x = layers.DepthwiseConv2D(3, padding="valid", depth_multiplier=2, name="depth")(x)
    x = layers.SeparableConv2D(5, 1, name="separable")(x)
    x = layers.Flatten()(x)
    return keras.Model(i, layers.Dense(7, name="head")(x)), rng.normal(size=(2, 8, 8, 3))
def text():
    i = keras.Input((5,), dtype="int32")
    x = layers.Embedding(11, 6, name="embed")(i)
    x = layers.LSTM(4, return_sequences=True, name="lstm")(x)
    x = layers.GRU(3, return_sequences=True, reset_after=True, name="gru")(x)
    x = layers.LayerNormalization(epsilon=1e-5, name="norm")(x)
    return keras.Model(i, layers.Dense(2, name="head")(x)), rng.integers(0, 11, size=(2, 5))
def attend():
    i = keras.Input((5, 12))
    x = layers.MultiHeadAttention(3, 4, name="attn")(i, i)
    return keras.Model(i, layers.Dense(2, name="head")(x)), rng.normal(size=(2, 5, 12))
model, given = globals()[sys.argv[1]]()
values = {}
for v in model.weights:
    new = rng.normal(size=v.shape).astype("float32") * 0.4
    if "variance" in v.name:
        new = np.abs(new) + 0.5
    v.assign(new)
    values[getattr(v, "path", v.name)] = new
stem = sys.argv[2].removesuffix(".npz")
model.save(stem + ".keras")
model.save(stem + ".h5")
model.save_weights(stem + ".weights.h5")
tf.train.Checkpoint(model=model).write(stem + "_tf")
np.savez(sys.argv[2], given=given, result=model(given.astype("float32") if given.dtype == float else given).numpy(),
         **{"w:" + k: v for k, v in values.items()})
"""


class Image(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6)
        self.depth = nn.Conv2d(6, 12, 3, groups=6)
        self.separable = nn.ModuleDict(
            {
                "depthwise": nn.Conv2d(12, 12, 1, groups=12, bias=False),
                "pointwise": nn.Conv2d(12, 5, 1),
            }
        )
        self.fc = nn.Linear(5 * 16, 7)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.depth(self.bn1(self.conv1(x)))
        return self.fc(self.separable["pointwise"](self.separable["depthwise"](x)).flatten(1))


class Text(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(11, 6)
        self.lstm, self.gru = nn.LSTM(6, 4, batch_first=True), nn.GRU(4, 3, batch_first=True)
        self.norm, self.fc = nn.LayerNorm(3), nn.Linear(3, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.fc(self.norm(self.gru(self.lstm(self.table(x))[0])[0]))


class Attend(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mha, self.head = nn.MultiheadAttention(12, 3, batch_first=True), nn.Linear(12, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.mha(x, x, x, need_weights=False)[0])


def keras_side(python: Path, kind: str, folder: Path) -> tuple[Side, torch.Tensor, torch.Tensor]:
    """Return a Keras model's weights, its input and its output."""
    path = folder / f"{kind}.npz"
    run = [str(python), "-c", KERAS, kind, str(path)]
    done = subprocess.run(run, capture_output=True, text=True, check=False, env={"TF_CPP_MIN_LOG_LEVEL": "3"})
    assert done.returncode == 0, done.stderr[-2000:]
    with np.load(path) as held:
        values = {name[2:]: torch.from_numpy(held[name]) for name in held.files if name.startswith("w:")}
        given, result = torch.from_numpy(held["given"]), torch.from_numpy(held["result"])
    return of_state(kind, values, "tensorflow"), given, result


# A .keras file is unpacked into a folder that goes with its last tensor, which Python warns of.
@pytest.mark.filterwarnings("ignore:Implicitly cleaning up:ResourceWarning")
@pytest.mark.slow
@pytest.mark.parametrize("release", ["tensorflow", "new_tensorflow"])
@pytest.mark.parametrize(("kind", "model"), [("image", Image), ("text", Text), ("attend", Attend)])
def test_a_model_of_keras_gives_the_same_under_pytorchs_names(
    kind: str, model: type[nn.Module], release: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    source, given, result = keras_side(request.getfixturevalue(release), kind, tmp_path)
    x = given.float().permute(0, 3, 1, 2) if given.dim() == 4 else given
    x = x.float() if x.is_floating_point() else x.long()
    files = [tmp_path / f"{kind}{suffix}" for suffix in (".keras", ".h5", ".weights.h5", "_tf")]
    for side in (source, *map(of_checkpoint, files)):
        net = model().eval()
        target = of_state("B", net.state_dict())
        found = propose(side, target)
        assert found.missing == {}
        assert found.unused == {}
        net.load_state_dict(dict(apply_map(found.map, side, target).state))
        assert torch.allclose(net(x), result, atol=1e-5), side.label
        guesses = {entry.target for entry in found.entries if entry.status == "guessed"}
        # no file holds the size of the image
        assert guesses == ({"fc.weight"} if kind == "image" else set()), side.label


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "model"), [("image", Image), ("text", Text), ("attend", Attend)])
def test_a_map_and_the_map_back_give_the_same_values(
    kind: str, model: type[nn.Module], tensorflow: Path, tmp_path: Path
) -> None:
    source, _, _ = keras_side(tensorflow, kind, tmp_path)
    target = of_state("B", model().state_dict())
    there = dict(apply_map(propose(source, target).map, source, target).state)
    middle = of_state("B", there)
    empty = of_state("A", {name: torch.zeros(info.shape) for name, info in source.tensors.items()}, "tensorflow")
    back = propose(middle, empty)
    assert back.missing == {}
    made = apply_map(back.map, middle, empty).state
    for name in source.tensors:
        assert torch.allclose(made[name], source.read(name)), name


def test_a_matrix_behind_a_flattened_image_is_never_called_matched() -> None:
    """Keras' files list layers by their names: a dense layer may stand before the convolution that feeds it."""

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.fc1, self.fc2 = nn.Conv2d(3, 8, 3), nn.Linear(8 * 4 * 4, 128), nn.Linear(128, 5)

    kernels = {"conv2d": (3, 3, 3, 8), "dense": (128, 128), "dense_1": (128, 5)}
    values = {
        f"{name}/{last}": torch.randn(shape if last == "kernel" else shape[-1:])
        for name, shape in sorted(kernels.items(), key=lambda entry: -len(entry[0]))
        for last in ("kernel", "bias")
    }
    found = propose(of_state("A", values, "tensorflow"), of_state("B", Net().state_dict()))
    entries = {entry.target: entry for entry in found.entries}
    assert entries["fc1.weight"].status == "guessed"
    assert "columns hwc to chw 8 4 4" in text_of(entries["fc1.weight"].steps)


def test_names_of_mindspore_are_known(tmp_path: Path) -> None:
    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table, self.conv, self.bn = nn.Embedding(7, 4), nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8)
            self.ln, self.fc = nn.LayerNorm(4), nn.Linear(4, 5)

    state = Net().state_dict()
    table = {"bn.weight": "bn.gamma", "bn.bias": "bn.beta", "bn.running_mean": "bn.moving_mean"}
    table |= {"bn.running_var": "bn.moving_variance", "ln.weight": "ln.gamma", "ln.bias": "ln.beta"}
    table |= {"table.weight": "table.embedding_table"}
    state.pop("bn.num_batches_tracked")
    write_mindspore(tmp_path / "net.ckpt", {table.get(name, name): value for name, value in state.items()})
    source = of_checkpoint(tmp_path / "net.ckpt")
    found = propose(source, of_state("B", Net().state_dict()))
    assert {entry.target: entry.sources[0] for entry in found.entries} == {
        name: table.get(name, name) for name in state
    }
    assert found.num("matched") == len(state)
