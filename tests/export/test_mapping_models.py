"""Maps between made-up models that calculate one thing under other names; both are run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner
from mapping_models import Gpt, OtherResNet, Own, ResNet, trained
from torch import nn

from jumar.base.errors import OutputError
from jumar.cli.main import cli
from jumar.export.mapping.propose import Proposal, propose
from jumar.export.mapping.run import MapOptions, map_names
from jumar.export.mapping.sides.side import of_state


def of(first: nn.Module | dict[str, torch.Tensor], second: nn.Module) -> Proposal:
    state = first if isinstance(first, dict) else first.state_dict()
    return propose(of_state("A", state), of_state("B", second.state_dict()))


@pytest.mark.parametrize(
    ("source", "target"),
    [("resnet", "other_resnet"), ("other_resnet", "resnet"), ("gpt", "own"), ("own", "gpt"), ("gpt", "gpt")],
)
def test_both_models_give_the_same_after_the_map(source: str, target: str) -> None:
    report = map_names(f"mapping_models:{source}", f"mapping_models:{target}")
    assert report.verification.agrees
    assert report.verification.differences[0].greatest_absolute < 1e-5
    assert (report.num_matched, report.num_guessed, report.num_left) == (report.num_targets, 0, 0)


def test_a_wrong_map_is_seen_by_running(tmp_path: Path) -> None:
    path = tmp_path / "map.toml"
    map_names("mapping_models:gpt", "mapping_models:own", MapOptions(output=path))
    lines = path.read_text("utf-8").splitlines()
    swapped = [line.replace("ln_1", "ln_X").replace("ln_2", "ln_1").replace("ln_X", "ln_2") for line in lines]
    path.write_text("\n".join(swapped), "utf-8")
    report = map_names("mapping_models:gpt", "mapping_models:own", MapOptions(edited=path))
    assert report.verification.differences
    assert not report.verification.agrees


def test_square_matrices_without_a_class_are_guessed_transposed() -> None:
    found = of(trained(Gpt(), 1), Own())
    guessed = {entry.target for entry in found.entries if entry.status == "guessed"}
    assert guessed == {f"blocks.{number}.out.weight" for number in range(3)}
    assert all("square" in entry.why for entry in found.entries if entry.target in guessed)


@pytest.mark.parametrize("prefix", ["module.", "module._orig_mod.", "model.", "backbone."])
def test_prefixes_of_wrappers_do_not_matter(prefix: str) -> None:
    state = {prefix + name: value for name, value in ResNet().state_dict().items()}
    found = of(state, ResNet())
    assert found.num("matched") == found.num_targets
    assert all(entry.sources == (prefix + entry.target,) for entry in found.entries)


def test_a_backbone_alone_leaves_the_head_and_another_head_is_no_match() -> None:
    backbone = {name: value for name, value in ResNet().state_dict().items() if not name.startswith("fc.")}
    found = of(backbone, OtherResNet())
    assert set(found.missing) == {"head.fc.weight", "head.fc.bias"}
    assert found.num("matched") == found.num_targets - 2
    found = of(ResNet(classes=9), OtherResNet(classes=5))
    assert set(found.missing) == {"head.fc.weight", "head.fc.bias"}
    assert set(found.unused) == {"fc.weight", "fc.bias"}
    assert found.num("matched") == found.num_targets - 2
    assert "fc.weight" in found.missing["head.fc.weight"]


def test_tied_weights_may_be_left_out_of_the_source() -> None:
    state = Gpt().state_dict()
    del state["lm_head.weight"]
    target = Own()
    ties = {"head.weight": "token_embedding.weight"}
    found = propose(of_state("A", state), of_state("B", target.state_dict(), ties=ties))
    entry = next(entry for entry in found.entries if entry.target == "head.weight")
    assert entry.sources == ("transformer.wte.weight",)
    assert found.missing == {}


def test_values_decide_what_names_and_shapes_do_not() -> None:
    class Flat(nn.Module):
        def __init__(self, names: str) -> None:
            super().__init__()
            for name in names.split():
                setattr(self, name, nn.Linear(6, 6))

    source, target = trained(Flat("foo bar baz"), 1), Flat("one two three")
    assert of(source, target).num("guessed") == 6
    for name, other in (("foo", "three"), ("bar", "one"), ("baz", "two")):
        getattr(target, other).load_state_dict(getattr(source, name).state_dict())
    found = of(source, target)
    assert found.num("matched") == 6
    assert {entry.target: entry.sources[0] for entry in found.entries}["three.weight"] == "foo.weight"


def test_the_command_says_what_was_not_verified(tmp_path: Path) -> None:
    torch.save(trained(ResNet(), 1).state_dict(), tmp_path / "a.pth")
    arguments = ["export", "map", str(tmp_path / "a.pth"), "mapping_models:other_resnet"]
    out = tmp_path / "out.pth"
    done = CliRunner().invoke(cli, [*arguments, "-o", str(tmp_path / "map.toml"), "--write", str(out)])
    assert done.exit_code == 0, done.output
    assert "52 of 52 tensors of mapping_models:other_resnet matched, 0 guessed, 0 left over." in done.output
    assert "Not verified by running: no factory makes the model of" in done.output
    model = OtherResNet()
    model.load_state_dict(torch.load(out, weights_only=True))
    x = torch.randn(2, 3, 16, 16)
    assert torch.equal(model.eval()(x), trained(ResNet(), 1)(x))
    again = CliRunner().invoke(cli, [*arguments, "--write", str(out)])
    assert isinstance(again.exception, OutputError)
    assert "--force" in str(again.exception)
    told = CliRunner().invoke(cli, [*arguments, "--map", str(tmp_path / "map.toml"), "--json"])
    assert json.loads(told.stdout)["num_matched"] == 52
