"""`profiler serve`: an agent's tools, one measurement at a time, nothing outside of its folder.

`mcp` is imported where it is needed: every worker reads this file, and one runs it.
"""

import errno
import json
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import Mock

import anyio
import pytest
from recorded import RECORDINGS

from profiler.commands import serve
from profiler.commands.requests import ServeRequest
from profiler.commands.serve import served_tools
from profiler.errors import ExitCode, UsageError
from profiler.findings.brief import MOST_BYTES, BriefDocument

FUNCTIONS = """
def inputs(n=[4]):
    return list(range(n))


def baseline(x):
    return sum(x)
"""


def in_a_loop(function):
    """What an asynchronous function returns; in a thread of its own.

    Tests in a browser leave a loop running in the first one.
    """
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(anyio.run, function).result()


def asked(root, *calls):
    """What the tools of a server answer, one call after the other: (is it an error, text)."""
    from mcp import Client

    async def ask():
        async with Client(served_tools(root)) as client:
            return [await client.call_tool(name, values) for name, values in calls]

    return [(done.is_error, done.content[0].text) for done in in_a_loop(ask)]


@pytest.mark.parametrize(
    "target",
    ["../mine.py", "/etc/passwd", "link.py", "link.py:one", "--out=/tmp", "a/../../b", "a\0b"],
)
def test_what_lies_outside_is_refused(tmp_path, target):
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "mine.py").write_text(FUNCTIONS)
    (root / "link.py").symlink_to(tmp_path / "mine.py")
    calls = [("check", {"target": target}), ("plan", {"target": target})]
    calls += [("explain", {"run": target}), ("compare", {"runs": ["x", target]})]
    calls.append(("check", {"target": "any.py", "referee": target}))
    for failed, text in asked(root, *calls):
        assert failed
        assert "outside" in text or "hyphen" in text


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"block": 8}, "block\n  Extra inputs are not permitted"),
        ({"blocks": 0}, "blocks\n  Input should be greater than or equal to 1"),
        ({"budget": -1}, "budget\n  Input should be greater than or equal to 0"),
    ],
)
def test_arguments_that_a_tool_does_not_have_are_refused(tmp_path, values, message):
    ((failed, text),) = asked(tmp_path, ("check", {"target": "mine.py", **values}))
    assert failed
    assert message in text


def test_pages_and_schemas_are_resources(tmp_path):
    from mcp import Client, MCPError

    page = tmp_path / "reports/softmax/one/index.html"
    page.parent.mkdir(parents=True)
    page.write_text("<p>a page")

    async def read():
        async with Client(served_tools(tmp_path)) as client:
            found = await client.read_resource("profiler://page/softmax/one")
            schema = await client.read_resource("profiler://schema/check")
            for name in ("..%2F..%2Fx", "absent", "-x"):
                with pytest.raises(MCPError):
                    await client.read_resource(f"profiler://page/{name}/one")
            return found.contents[0].text, schema.contents[0].text

    text, schema = in_a_loop(read)
    assert text == "<p>a page"
    assert schema == BriefDocument.schema_text()


def test_a_client_that_leaves_is_no_fault_and_what_cannot_be_served_is_said(tmp_path, monkeypatch):
    def ended_by(*errors):
        def run(_):
            raise ExceptionGroup("streams", [ExceptionGroup("writer", errors)])

        monkeypatch.setattr(serve, "served_tools", lambda _: Mock(run=run))
        return serve.serve(ServeRequest(tmp_path))

    assert ended_by(BrokenPipeError()) is ExitCode.COMPLETE
    with pytest.raises(OSError, match="No space left"):
        ended_by(BrokenPipeError(), OSError(errno.ENOSPC, "No space left"))
    with pytest.raises(UsageError, match=r"--root .*nowhere: there is no such folder"):
        serve.serve(ServeRequest(tmp_path / "nowhere"))
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(UsageError, match="stdin, which is closed"):
        serve.serve(ServeRequest(tmp_path))


def test_clients_measure_one_after_the_other(tmp_path, monkeypatch):
    from mcp import Client

    running, most = 0, 0

    async def answer(root, command, names, values, flags=None):
        nonlocal running, most
        running += 1
        most = max(most, running)
        await anyio.sleep(0)
        running -= 1
        return {"command": command}

    monkeypatch.setattr(serve, "_answer", answer)

    async def ask():
        server = served_tools(tmp_path)

        async def check():
            async with Client(server) as client:
                await client.call_tool("check", {"target": "mine.py"})

        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(check)

    in_a_loop(ask)
    assert most == 1


PROGRAM = """#!/bin/sh
echo begins >> notes
sleep 0.05
echo ends >> notes
"""


OF_A_RECORDING = {
    "check": {"target": "run.zip", "against": "padded"},
    "explain": {"run": "run.zip", "variant": "torch"},
}


def test_servers_of_two_clients_measure_one_after_the_other(profiler, fork_server):
    """Each client has a server of its own on stdin and stdout: what they share is the lock.

    One of them asks about a recording, too.
    """
    from mcp import Client, StdioServerParameters

    root = profiler.folder
    (root / "program").write_text(PROGRAM)
    (root / "program").chmod(0o755)
    (root / "run.zip").write_bytes((RECORDINGS / "transpose.zip").read_bytes())
    names = "ab"
    for name in names:
        profiler.write_spec(
            name=name,
            workload={"command": "./program {kernel}"},
            variants={"matrix": {"kernel": ["one", "two"]}},
            problems={"matrix": {"size": [64]}},
            # As few processes as there can be: each visit is one, under a stand-in for ncu.
            collect={"device": "cpu", "blocks": 1, "final_blocks": 0, "explain": False}
            | {"warmups": 0, "metrics": ["duration_ns"]},
        )
    command, *arguments = fork_server.command("profiler", "serve", "--root", str(root))
    process = StdioServerParameters(
        command=command,
        args=arguments,
        env={**profiler.environment, "FAKE_NCU_KERNELS": "a_kernel"},
    )
    answers = {}

    async def check(name):
        async with Client(process) as client:
            answers[name] = await client.call_tool("check", {"target": f"{name}.yaml"})
            if name == names[0]:
                for tool, values in OF_A_RECORDING.items():
                    answers[tool] = await client.call_tool(tool, values)
            return {tool.name for tool in (await client.list_tools()).tools}

    async def ask():
        async with anyio.create_task_group() as group:
            for name in names[1:]:
                group.start_soon(check, name)
            return await check(names[0])

    assert in_a_loop(ask) == {"check", "explain", "plan", "compare", "runs"}
    for name in names:
        text = answers[name].content[0].text
        assert not answers[name].is_error, text
        assert len(text.encode()) < MOST_BYTES
        document = json.loads(text)
        assert document == answers[name].structured_content
        assert (document["experiment"], document["exit_code"]) == (name, 0)
    checked, explained = (json.loads(answers[tool].content[0].text) for tool in OF_A_RECORDING)
    BriefDocument.model().model_validate(checked)
    assert checked["baseline"] == "padded"
    assert explained["variant"] == "torch"
    lines = (root / "notes").read_text().split()
    assert len(lines) >= len(names) * 2 * 2
    assert lines == ["begins", "ends"] * (len(lines) // 2)
