"""`profiler serve`: commands as tools of the Model Context Protocol, for agents that write kernels.

Each tool is a command in a process of its own, in the folder that is served. Those that measure go
one after the other, however many clients ask; the lock on the GPU keeps other processes away.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from profiler import __version__
from profiler.commands.requests import ServeRequest
from profiler.errors import EnvironmentUnusable, ExitCode, UsageError

if TYPE_CHECKING:
    from mcp.server import MCPServer
    from mcp.server.mcpserver.tools import Tool
    from mcp.types import CallToolResult

_INSTRUCTIONS = (
    "Says which version of a GPU kernel is best here, by how much, whether that is real, "
    "and why. Write a Python file with a function `inputs` and a function for each version, and "
    "call `check` with it; where `settle` is there, call it again with that many blocks. "
    "`explain` says what a kernel waits for and at which lines."
)
_PAGE_FORMAT = "text/html"
_SCHEMA_FORMAT = "application/schema+json"
_MOST_ERROR = 2000
"""Letters of stderr that a failed command gives."""


def serve(request: ServeRequest) -> ExitCode:
    """Answer on stdin and stdout until the client leaves."""
    if not request.root.is_dir():
        raise UsageError(f"--root {request.root}: there is no such folder")
    if sys.stdin is None:
        raise UsageError("serve answers what comes on stdin, which is closed.")
    try:
        served_tools(request.root).run("stdio")
    except BaseExceptionGroup as group:
        _, others = group.split(BrokenPipeError)  # of a client that left before its answer
        if others is not None:
            raise _first_error(others) from None
    return ExitCode.COMPLETE


def _first_error(error: BaseException) -> BaseException:
    """The first error of a group of groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def served_tools(root: Path) -> MCPServer:
    """The server for a folder; raises EnvironmentUnusable where `mcp` is not installed."""
    try:
        import anyio
        from mcp.server import MCPServer
        from mcp.server.mcpserver.exceptions import ResourceError
    except ModuleNotFoundError as error:
        raise EnvironmentUnusable(
            "`profiler serve` needs the library mcp.",
            remedy="pip install mcp; in a checkout, pip install -e '.[serve]'",
        ) from error
    root = root.resolve()
    answer = partial(_answer, root)
    measuring = anyio.Lock()

    async def check(  # noqa: PLR0913, PLR0917 - the arguments that a client may name
        target: str,
        against: str | None = None,
        only: str | None = None,
        blocks: Annotated[int | None, Field(ge=1)] = None,
        budget: Annotated[float | None, Field(ge=0)] = None,
        timer: bool = False,
        fast: bool = False,
        device: str | None = None,
        referee: str | None = None,
    ) -> Any:
        """Measure what is missing of an experiment, or read a run; the answer in 4 kB.

        target: a file in the served folder (YAML, or Python with `inputs` and a function for each
        version), or the name of an experiment that was run. against: the variant to compare with.
        only: `K=V,...`. blocks: timing blocks; they add to those measured. budget: seconds after
        which nothing but the first look is begun. timer: CUDA events, no counters. fast: CUPTI.
        referee: a Python file in the folder whose functions are judged beside those of target as
        one judges what may cheat: each in a process of its own, on inputs that it has not seen.
        """
        flags = {"timer": timer, "fast": fast}
        values = {
            "against": against,
            "only": only,
            "blocks": blocks,
            "budget": budget,
            "device": device,
            "referee": referee,
        }
        async with measuring:
            return await answer("check", [target], values, flags)

    async def explain(
        run: str, variant: str | None = None, against: str | None = None, problem: str | None = None
    ) -> Any:
        """Why a variant takes as long as it does, or differs from another: counters and lines."""
        values = {"variant": variant, "against": against, "problem": problem}
        return await answer("explain", [run], values)

    async def plan(target: str, only: str | None = None) -> Any:
        """What would be measured, and how long that takes; runs nothing on the GPU."""
        return await answer("plan", [target], {"only": only})

    async def compare(
        runs: Annotated[list[str], Field(min_length=2)], only: str | None = None
    ) -> Any:
        """What became faster or slower between runs, the older one first."""
        return await answer("compare", runs, {"only": only}, {"no-report": True})

    async def runs() -> Any:
        """Runs and recordings of the served folder, with their answers."""
        return await answer("list", [], {})

    server: MCPServer = MCPServer(
        "profiler",
        version=__version__,
        instructions=_INSTRUCTIONS,
        log_level="WARNING",
        tools=[_tool(command) for command in (check, explain, plan, compare, runs)],
    )

    @server.resource("profiler://page/{experiment}/{run}", mime_type=_PAGE_FORMAT)
    def page(experiment: str, run: str) -> str:
        """The page of a run."""
        try:
            return _file(root, Path("reports", experiment, run, "index.html"))
        except UsageError as error:
            raise ResourceError(str(error)) from None

    for name, kind in _schemas().items():
        server.resource(f"profiler://schema/{name}", name=name, mime_type=_SCHEMA_FORMAT)(
            kind.schema_text
        )
    return server


def _tool(command: Callable[..., Any]) -> Tool:
    """A tool that gives the text of a command, and refuses arguments that it does not have.

    mcp ignores them: a misspelt `blocks` would be measured with the default.
    """
    from mcp.server.mcpserver.tools import Tool

    # Without a result of its own it has no schema of one.
    tool = Tool.from_function(command, structured_output=False)
    arguments = tool.fn_metadata.arg_model
    arguments.model_config["extra"] = "forbid"
    arguments.model_rebuild(force=True)
    tool.parameters = arguments.model_json_schema()
    return tool


def _schemas() -> dict[str, Any]:
    """JSON Schemas by tool."""
    from profiler.comparison.document import ComparisonDocument
    from profiler.findings.brief import BriefDocument
    from profiler.findings.why.document import ExplanationDocument

    return {"check": BriefDocument, "explain": ExplanationDocument, "compare": ComparisonDocument}


def _inside(root: Path, name: str) -> str:
    """A file or the name of an experiment; UsageError for a path outside of the folder."""
    if name.startswith("-") or "\0" in name:
        raise UsageError(f"{name!r}: a name begins with no hyphen and has no null byte")
    file = name.partition(".py:")[0] + ".py" if ".py:" in name else name
    if not (root / file).resolve().is_relative_to(root):
        raise UsageError(f"{name}: lies outside of the folder that is served")
    return name


def _file(root: Path, path: Path) -> str:
    """Text of a file; UsageError for a path outside of the folder, or no file."""
    resolved = (root / _inside(root, str(path))).resolve()
    if not resolved.is_file():
        raise UsageError(f"{path}: there is no such page")
    return resolved.read_text("utf-8")


async def _answer(
    root: Path,
    command: str,
    names: list[str],
    values: dict[str, Any],
    flags: dict[str, bool] | None = None,
) -> CallToolResult:
    """Result with a command's JSON; without JSON, its exit code and the end of its stderr.

    The text is what the command prints, no letter longer, and an error where nothing could
    be read or measured. Raises mcp's ToolError, which its client is told, for a name outside
    of the folder.
    """
    import anyio
    from mcp.server.mcpserver.exceptions import ToolError
    from mcp.types import CallToolResult, TextContent

    try:
        names = [_inside(root, name) for name in names]
        if values.get("referee") is not None:
            _inside(root, values["referee"])
    except UsageError as error:
        raise ToolError(str(error)) from None
    options = [f"--{key}={value}" for key, value in values.items() if value is not None]
    options += [f"--{key}" for key, is_set in (flags or {}).items() if is_set]
    argv = [sys.executable, "-P", "-m", "profiler", command, *options, "--json=-", "--", *names]
    completed = await anyio.run_process(argv, check=False, cwd=root)
    printed = completed.stdout.decode("utf-8", errors="replace").strip()
    try:
        document: dict[str, Any] = json.loads(printed)
    except json.JSONDecodeError:
        error_text = completed.stderr.decode("utf-8", errors="replace")[-_MOST_ERROR:]
        document = {"exit_code": completed.returncode, "error": error_text}
        printed = json.dumps(document)
    return CallToolResult(
        content=[TextContent(type="text", text=printed)],
        structured_content=document,
        is_error=document.get("error") is not None,
    )
