"""`survey`: describe this machine as a `Host`. It only reads; a value that cannot be read stays None.

`root` stands in front of every system path, so that a test can lay out a machine in a folder.
"""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from jumar.advise.doctor.machine.host import Host
from jumar.advise.doctor.machine.interpreter import ask_interpreter
from jumar.advise.doctor.machine.survey.disks import survey_shared_memory, survey_volumes
from jumar.advise.doctor.machine.survey.kernel import open_file_limit, survey_clock, survey_kernel, survey_limits
from jumar.advise.doctor.machine.survey.network import survey_network
from jumar.advise.doctor.machine.survey.npu import survey_npu
from jumar.advise.doctor.machine.survey.placement import survey_placement
from jumar.advise.doctor.machine.survey.power import survey_governors, survey_power
from jumar.advise.doctor.machine.survey.processes import ask_npu_smi, survey_holders
from jumar.advise.doctor.machine.survey.rank_table import survey_rank_table
from jumar.advise.doctor.machine.survey.versions import survey_software
from jumar.base.host import cores, memory, pressure

__all__ = ["survey", "survey_governors", "survey_npu", "survey_volumes"]


def survey(environ: Mapping[str, str] | None = None, *, root: Path = Path("/"), folder: Path | None = None) -> Host:
    """Describe this machine; `folder` is where the job would run (the current folder by default)."""
    environ = os.environ if environ is None else environ
    npu = survey_npu(environ, root)
    return Host(
        environ=dict(environ),
        system=platform.system(),
        python=ask_interpreter(environ),
        npu=npu,
        cores=cores(root),
        governors=survey_governors(root),
        memory=memory(root),
        shared_memory=survey_shared_memory(root),
        volumes=survey_volumes(environ, folder or Path.cwd(), root),
        open_files=open_file_limit(),
        power=survey_power(root),
        pressure=pressure(root),
        limits=survey_limits(),
        kernel=survey_kernel(root),
        placement=survey_placement(root),
        software=survey_software(environ, npu, root),
        smi=ask_npu_smi(npu.npu_smi),
        holders=survey_holders(root),
        network=survey_network(environ, root),
        clock=survey_clock(root),
        rank_table=survey_rank_table(environ),
    )
