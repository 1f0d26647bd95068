"""Rank tables: a good one of each form has no fault, and every broken rule is named."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jumar.advise.doctor.rank_table import faults_of, is_rank_table
from jumar.base.findings import Severity
from jumar.cli.main import main


def device(number: int, rank: int, server: int = 0, **more: str) -> dict[str, str]:
    return {
        "device_id": str(number),
        "device_ip": f"192.168.1.{10 * server + number + 1}",
        "rank_id": str(rank),
        **more,
    }


def table(num_servers: int = 2, num_devices: int = 2) -> dict[str, Any]:
    servers = [
        {
            "server_id": f"node_{server}",
            "host_ip": f"172.16.0.{server + 1}",
            "device": [device(number, server * num_devices + number, server) for number in range(num_devices)],
        }
        for server in range(num_servers)
    ]
    return {"version": "1.0", "status": "completed", "server_count": str(num_servers), "server_list": servers}


def pods() -> dict[str, Any]:
    found = table()
    found["version"] = "1.2"
    for server in found["server_list"]:
        for one in server["device"]:
            one["super_device_id"] = one["device_id"]
            del one["device_ip"]
    found["super_pod_list"] = [
        {"super_pod_id": str(number), "server_list": [{"server_id": f"node_{number}"}]} for number in range(2)
    ]
    return found


OLD = {
    "status": "completed",
    "group_count": "1",
    "group_list": [
        {
            "group_name": "w",
            "instance_count": "2",
            "device_num": "2",
            "instance_list": [
                {
                    "rank_id": str(n),
                    "server_id": "10.0.0.1",
                    "devices": [{"device_id": str(n), "device_ip": f"192.168.1.{n + 1}"}],
                }
                for n in range(2)
            ],
        }
    ],
}
GROUPS = {
    "version": "1.0",
    "status": "completed",
    "server_group_list": [{"group_id": "2", **{k: v for k, v in table(1).items() if k.startswith("server")}}],
}


@pytest.mark.parametrize(
    "good",
    [table(), table(1, 8), table(3, 1), pods(), OLD, GROUPS],
    ids=["1.0", "one server", "three", "1.2", "old", "groups"],
)
def test_a_good_table_has_no_fault(good):
    assert faults_of(json.dumps(good)) == []


def changed(path: str, value: Any, start: dict[str, Any] | None = None) -> str:
    """Return a table with one value replaced, or removed where it is None."""
    found = copy.deepcopy(start or table())
    *parents, last = [int(part) if part.isdigit() else part for part in path.split(".")]
    owner: Any = found
    for part in parents:
        owner = owner[part]
    if value is None:
        del owner[last]
    else:
        owner[last] = value
    return json.dumps(found)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("status", "initializing", 'status must be "completed"'),
        ("version", "3.0", "version must be 1.0, or 1.2"),
        ("version", None, "version must be 1.0, or 1.2"),
        ("server_count", "3", "server_count is '3', and server_list has 2"),
        ("server_count", 2, "server_count must be a text; got the number 2"),
        ("server_list", [], "server_list must be a list that is not empty"),
        ("server_list.0.server_id", "node_1", "server_id 'node_1' stands twice"),
        ("server_list.0.server_id", "", "server_id must be a text of 1 to 63 characters"),
        ("server_list.0.server_id", "x" * 64, "server_id must be a text of 1 to 63 characters"),
        ("server_list.0.host_ip", "172.16.0.2", "host_ip 172.16.0.2 stands twice"),
        ("server_list.0.host_ip", "node-1", "host_ip is no address"),
        ("server_list.0.device", [], "server_list[0].device must be a list that is not empty"),
        ("server_list.0.device.0.device_id", "1", "device_id 1 stands twice in server_list[0]"),
        ("server_list.0.device.0.device_id", "-1", "device_id must be a whole number from 0; got '-1'"),
        ("server_list.0.device.0.rank_id", "1", "rank_id stands twice: 1"),
        ("server_list.0.device.0.rank_id", "7", "must be 0 to 3; missing: 0"),
        ("server_list.0.device.0.rank_id", 0, "rank_id must be a text; got the number 0"),
        ("server_list.0.device.0.rank_id", None, "rank_id must be a whole number from 0; got None"),
        ("server_list.0.device.0.device_ip", "192.168.1.300", "device_ip is no address: '192.168.1.300'"),
        ("server_list.0.device.0.device_ip", "192.168.1.2", "device_ip 192.168.1.2 stands twice"),
        ("server_list.0.device.0.device_ip", None, "has no device_ip; several servers need one"),
        ("server_list.0.device.0.device_ip", "fd00::1", "IPv4 and IPv6 in one table"),
        ("server_list.0.device.0.device_ip", "10.9.8.7", "device_id 0 is in 2 subnets"),
        ("server_list.0.device.0.device_port", "70000", "device_port is no port: '70000'"),
        ("super_pod_list", [{"super_pod_id": "0", "server_list": []}], "super_pod_list belongs to version 1.2"),
    ],
)
def test_a_broken_rule_is_named(path, value, said):
    faults = faults_of(changed(path, value))
    assert any(said in fault.message for fault in faults), [fault.message for fault in faults]
    assert all(fault.action for fault in faults)


@pytest.mark.parametrize(
    ("path", "value", "said"),
    [
        ("super_pod_list", None, "super_pod_list must be a list of super pods"),
        ("super_pod_list.0.super_pod_id", "1", "super_pod_id '1' stands twice"),
        (
            "super_pod_list.0.server_list.0.server_id",
            "node_9",
            "names the server 'node_9', which is not in server_list",
        ),
        ("super_pod_list.0.server_list.0.server_id", "node_1", "Server 'node_1' is in 2 super pods"),
        ("super_pod_list.0.server_list", [], "Server 'node_0' is in no super pod"),
        ("server_list.0.device.0.super_device_id", None, "super_device_id must be a whole number from 0; got None"),
        ("server_list.0.device.0.super_device_id", "1", "super_device_id 1 stands twice in super pod '0'"),
    ],
)
def test_a_broken_rule_of_super_pods_is_named(path, value, said):
    faults = faults_of(changed(path, value, pods()))
    assert any(said in fault.message for fault in faults), [fault.message for fault in faults]


def test_a_subnet_that_differs_is_advice_because_a_router_may_be_between():
    (fault,) = faults_of(changed("server_list.0.device.0.device_ip", "10.9.8.7"))
    assert fault.severity is Severity.ADVICE


def test_comments_as_in_the_guide_are_told():
    (fault,) = faults_of('{"status": "completed", // usable\n "server_list": []}')
    assert "It has comments (//)." in fault.message
    assert fault.action == "Delete the comments."


def test_the_environment_of_a_job_must_fit_the_table():
    text = json.dumps(table())
    assert faults_of(text, {"RANK_SIZE": "4", "RANK_ID": "3"}) == []
    assert [fault.message for fault in faults_of(text, {"RANK_SIZE": "8", "RANK_ID": "7"})] == [
        "RANK_SIZE is 8, and the table has 4 ranks.",
        "RANK_ID 7 is not in the table.",
    ]


def test_a_table_is_known_by_its_content(tmp_path):
    good, other = tmp_path / "hccl.json", tmp_path / "events.json"
    good.write_text(json.dumps(table()))
    other.write_text('{"message": "rank_id 3 failed"}')
    assert is_rank_table(good)
    assert not is_rank_table(other)
    assert not is_rank_table(tmp_path / "absent.json")


def test_the_command_takes_a_table_and_names_each_broken_rule(tmp_path, capsys):
    file = tmp_path / "hccl.json"
    file.write_text(changed("server_list.0.device.0.rank_id", "7"))
    assert main(["doctor", str(file), "--json"]) == 1
    (finding,) = json.loads(capsys.readouterr().out)["findings"]
    assert (finding["code"], finding["where"]["path"]) == ("JM835", str(file))
    assert main(["doctor", str(file)]) == 1
    assert "The 4 ranks must be 0 to 3; missing: 0." in capsys.readouterr().out
    file.write_text(json.dumps(table()))
    assert main(["doctor", str(file)]) == 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.floats(allow_nan=False),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["device", "device_id", "server_id", "rank_id", "device_ip"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(
    st.sampled_from(["server_list", "super_pod_list", "server_count", "group_list", "server_group_list", "version"]),
    JSON,
)
def test_whatever_stands_in_a_table_it_is_told_and_nothing_is_raised(name, value):
    for start in (table(), pods()):
        for fault in faults_of(json.dumps({**start, name: value})):
            assert fault.message.endswith((".", "…"))


@given(st.text(max_size=40))
def test_any_text_is_told_to_be_no_table(text):
    assert faults_of(text)
