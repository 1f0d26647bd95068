"""`ExportFormatContract`: what a format of exported weights promises."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from jumar.base.errors import InputError, OutputError
from jumar.export import CheckpointReport, export_checkpoint
from jumar.export.checkpoint import same_bits
from jumar.export.formats import INSTALLED, ExportFormat

_DTYPES = (
    torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.int16, torch.int8,
    torch.uint8, torch.bool,
)  # fmt: skip


def weights() -> dict[str, torch.Tensor]:
    """Return tensors of every usual dtype, and those that formats lose: empty, scalar, strided, tied, not finite."""
    made = {f"of.{str(dtype).removeprefix('torch.')}": torch.arange(6).reshape(2, 3).to(dtype) for dtype in _DTYPES}
    tied = torch.linspace(-1, 1, 8)
    return {
        **made,
        "scalar": torch.tensor(1.5),
        "empty": torch.empty(0, 4),
        "transposed": torch.arange(6.0).reshape(2, 3).t(),
        "one_of_more": torch.arange(9.0)[::2],
        "extremes": torch.tensor([float("inf"), -float("inf"), float("nan"), -0.0, 1e-45]),
        "tied.first": tied,
        "tied.second": tied,
        "a/name with.a-lot:in_it": torch.ones(1),
    }


class ExportFormatContract:
    """An `ExportFormat`. Set `format`.

    class TestMyFormat(ExportFormatContract):
        format = acme.formats.NPZ
    """

    format: ExportFormat

    @pytest.fixture(autouse=True)
    def _is_usable(self) -> None:
        try:
            self.format.require(Path("weights"))
        except InputError as error:
            pytest.skip(str(error))

    def test_its_name_and_suffixes_have_the_fixed_form(self) -> None:
        """A suffix is in lower case with its dot."""
        assert self.format.name.strip()
        assert self.format.suffixes
        assert all(suffix == Path(f"x{suffix}").suffix == suffix.lower() for suffix in self.format.suffixes)

    def test_names_shapes_dtypes_and_bits_come_back(self, tmp_path: Path) -> None:
        """What was written is what is read, in any order."""
        state = weights()
        back = self.written(tmp_path, state)
        assert back.keys() == state.keys()
        wrong = [name for name, tensor in state.items() if not same_bits(tensor, torch.as_tensor(back[name]))]
        assert wrong == []

    def test_what_is_read_is_on_the_cpu(self, tmp_path: Path) -> None:
        """No device is needed to read a file."""
        assert {tensor.device.type for tensor in self.written(tmp_path, weights()).values()} == {"cpu"}

    def test_writing_leaves_the_tensors_as_they_were(self, tmp_path: Path) -> None:
        """The tensors belong to the caller."""
        state, before = weights(), weights()
        self.written(tmp_path, state)
        assert state.keys() == before.keys()
        assert all(same_bits(state[name], before[name]) for name in before)
        assert not state["transposed"].is_contiguous()

    def test_writing_makes_the_one_file_that_was_asked_for(self, tmp_path: Path) -> None:
        """The path has a temporary name; no suffix is added to it."""
        self.written(tmp_path, weights())
        assert [path.name for path in tmp_path.iterdir()] == ["weights.part"]

    def test_no_tensors_at_all_come_back_as_none(self, tmp_path: Path) -> None:
        """An empty state is a state."""
        assert dict(self.written(tmp_path, {})) == {}

    def test_a_checkpoint_is_exported_in_it(self, tmp_path: Path) -> None:
        """`jumar export checkpoint IN OUT` writes the format, reads it back and compares."""
        torch.save({"model": {"module.weight": torch.ones(2, 3)}}, tmp_path / "in.pth")
        output = tmp_path / f"out{self.format.suffixes[0]}"
        report = self.exported(tmp_path / "in.pth", output)
        assert (report.num_tensors, report.num_values) == (1, 6)
        assert list(self.format.read(output)) == ["weight"]

    def test_a_value_that_is_no_tensor_comes_back_or_is_refused(self, tmp_path: Path) -> None:
        """A format that holds tensors only says so, and Jumar refuses the rest with one sentence."""
        torch.save({"weight": torch.ones(2), "head._extra_state": "v1"}, tmp_path / "in.pth")
        output = tmp_path / f"out{self.format.suffixes[0]}"
        if self.format.holds_values:
            self.exported(tmp_path / "in.pth", output)
            assert self.format.read(output)["head._extra_state"] == "v1"
        else:
            with pytest.raises(OutputError, match="tensors only"):
                self.exported(tmp_path / "in.pth", output)
            assert not output.exists()

    def written(self, folder: Path, state: dict[str, Any]) -> Any:
        """Return what is read back of a state."""
        path = folder / "weights.part"
        self.format.write(path, state)
        return self.format.read(path)

    def exported(self, source: Path, output: Path) -> CheckpointReport:
        """Export a checkpoint, as if the format's distribution were installed."""
        with INSTALLED.holding(self.format):
            return export_checkpoint(source, output)
