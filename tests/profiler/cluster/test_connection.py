"""Which workers are reached, and what is refused or said before."""

import importlib.util
import io
import logging
import socket
from unittest.mock import Mock

import pytest
from rich.console import Console
from studies import workload_of

from profiler.cluster import connection
from profiler.cluster.connection import (
    check_address,
    check_host,
    local_address,
    security_of,
    warn_if_unencrypted,
)
from profiler.cluster.on_worker import device_among, device_of, require_device, resources_of
from profiler.commands.requests import RunRequest
from profiler.commands.workers import run_on_workers, written_runs_of_workers
from profiler.errors import EnvironmentUnusable, UsageError
from profiler.machine.environment import Gpu
from profiler.model import Environment
from profiler.sessions.progress import ProgressReporter

H200 = Environment(gpu="NVIDIA H200", gpu_uuid="GPU-1", driver="580.1", cpu="a processor")
SPEC = """\
name: mine
workload: WORKLOAD
variants: {matrix: {blocks_per_sm: [1, 2, 4], chains: [1]}}
problems: {matrix: {waves: [1]}}
""".replace("WORKLOAD", workload_of("waves"))


@pytest.fixture
def said():
    return io.StringIO()


@pytest.fixture
def reporter(said):
    console = Console(file=said, width=200)
    return ProgressReporter(console, console)


@pytest.mark.parametrize(
    ("address", "secured"),
    [
        ("scheduler:8786", False),
        ("http://scheduler:8786", False),
        ("tcp://", False),
        ("tcp://scheduler", False),
        ("tcp://scheduler:99999", False),
        ("tcp://[::1", False),
        ("tls://scheduler:8786", False),
        ("tcp://scheduler:8786", True),
    ],
)
def test_addresses_that_are_refused(address, secured):
    with pytest.raises(UsageError, match=r"tls://"):
        check_address(address, secured=secured)


@pytest.mark.parametrize(
    ("address", "lines"),
    [
        ("tcp://10.0.0.7:8786", 1),
        ("tcp://scheduler:8786", 1),
        ("tcp://127.0.0.1:8786", 0),
        ("tcp://[::1]:8786", 0),
        ("tcp://localhost:8786", 0),
        ("tls://scheduler:8786", 0),
    ],
)
def test_a_plain_connection_over_a_network_is_said_in_one_line(address, lines, said, reporter):
    check_address(address, secured=address.startswith("tls"))
    warn_if_unencrypted(address, reporter)
    assert said.getvalue().count("\n") == lines


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("tcp://127.0.0.1:8786", "127.0.0.1"),
        ("tls://127.0.0.2:8786", "127.0.0.1"),
        ("tcp://[::1]:8786", "[::1]"),
    ],
)
def test_loopback_is_reached_by_loopback(address, here):
    assert local_address(address) == here


def test_an_address_without_a_way_to_it_is_an_error():
    with pytest.raises(socket.gaierror):
        local_address("tcp://no.such.host.invalid:8786")


def test_tls_needs_all_of_its_files(tmp_path, monkeypatch):
    pem = tmp_path / "ca.pem"
    pem.touch()
    assert security_of((None, None, None)) is None
    with pytest.raises(UsageError, match="all three or none"):
        security_of((pem, pem, None))
    with pytest.raises(UsageError, match="no such file"):
        security_of((pem, pem, tmp_path / "key.pem"))
    with pytest.raises(UsageError, match="--tls-ca, --tls-cert and --tls-key: "):
        security_of((pem, pem, pem))
    monkeypatch.setattr(connection.Security, "get_connection_args", Mock())
    security = security_of((pem, pem, pem))
    assert security is not None
    assert security.require_encryption
    assert security.get_tls_config_for_role("worker")["key"] == str(pem)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "0.0.0.0"])  # noqa: S104 - as is given
def test_a_host_has_its_addresses(host):
    check_host(host)


@pytest.mark.parametrize("host", ["192.0.2.1", "no.such.host.invalid", "[2001:db8::1]"])
def test_a_host_has_no_other_address(host):
    with pytest.raises(UsageError, match=r"--host .*: this host has no such address"):
        check_host(host)


def test_devices_are_told_apart_by_model_and_driver():
    device = device_of(H200)
    assert device == "NVIDIA H200, driver 580.1"
    assert device_of(Environment(cpu="a processor")) == "a processor"
    assert device_among(resources_of(device)) == device
    assert device_among({}) is None
    assert device_among({"GPU": 1}) is None
    require_device(H200, device)
    with pytest.raises(EnvironmentUnusable, match=r"driver 580\.1 now, and not on .* 590\.2"):
        require_device(H200, "NVIDIA H200, driver 590.2")


def test_tracebacks_of_dask_and_of_its_event_loop_are_not_printed():
    """A callback of Dask that fails on a lost connection is an error of Tornado's logger."""
    connection._quiet_dask()
    for name in ("distributed.core", "tornado.application"):
        assert not logging.getLogger(name).isEnabledFor(logging.ERROR)


@pytest.mark.parametrize(
    ("workers", "why"),
    [("local:0", "a number"), ("local:two", "a number"), ("local:3", "shows 2 GPUs")],
)
def test_as_many_local_workers_as_there_are_gpus(workers, why, monkeypatch):
    gpus = (Gpu(name="NVIDIA H200", uuid="GPU-1"), Gpu(name="NVIDIA H200", uuid="GPU-2"))
    monkeypatch.setattr(connection, "visible_gpus", lambda: gpus)
    with pytest.raises(UsageError, match=why):
        connection._local_environments(workers, cpu=False)
    two = connection._local_environments("local:2", cpu=False)
    options = [connection._nanny_options(environment, "scratch") for environment in two]
    assert [option["env"] for option in options] == [
        {"CUDA_VISIBLE_DEVICES": "GPU-1"},
        {"CUDA_VISIBLE_DEVICES": "GPU-2"},
    ]
    assert [option["name"] for option in options] == ["GPU-1", "GPU-2"]
    assert all(option["nthreads"] == 1 for option in options)
    assert all({*option["resources"].values()} == {1} for option in options)


def _request(tmp_path, **flags):
    spec = tmp_path / "mine.yaml"
    spec.write_text(SPEC)
    return RunRequest(spec, out=tmp_path / "reports", workers="local:2", **flags)


def test_without_dask_it_says_what_to_install(tmp_path, reporter, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(
        "profiler.commands.workers.find_spec",
        lambda name: None if name == "distributed" else real(name),
    )
    with pytest.raises(EnvironmentUnusable, match="needs Dask") as raised:
        written_runs_of_workers(_request(tmp_path), reporter)
    assert (
        raised.value.remedy == "pip install distributed; in a checkout, pip install -e '.[cluster]'"
    )


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        ({"device": "cuda:1"}, "a GPU of one machine"),
        ({"fail_on": "durtion>1us"}, "no metric 'durtion'; did you mean 'duration'"),
    ],
)
def test_what_workers_cannot_be_asked_for(flags, why, tmp_path):
    with pytest.raises(UsageError, match=why):
        run_on_workers(_request(tmp_path, **flags))
