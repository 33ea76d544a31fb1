"""Commands and their flags as docs/commands.md has them, written from the command line itself."""

from typing import get_args

from typer.main import get_command

from profiler.cli import app


def commands():
    """A section for each command: what it does, its arguments, its flags."""
    known = get_command(app).commands
    shown = [(name, command) for name, command in known.items() if not command.hidden]
    return "\n".join(_section(name, command) for name, command in shown)


def _section(name, command):
    arguments = [param for param in command.params if param.param_type_name == "argument"]
    flags = [param for param in command.params if param.param_type_name == "option"]
    usage = " ".join((f"profiler {name}", *map(_argument, arguments)))
    lines = [f"## {name}", "", f"`{usage}`", "", " ".join(command.help.split()), ""]
    rows = [(f"`{_cell(_argument(argument))}`", argument) for argument in arguments]
    rows += [(_spelling(flag), flag) for flag in flags]
    if rows:
        lines += ["| argument or flag | |", "|---|---|"]
        lines += [
            f"| {spelling} | {_cell(param.help)}{_default(param)} |" for spelling, param in rows
        ]
        lines.append("")
    return "\n".join(lines)


def _argument(argument):
    """An argument as a usage line has it, in brackets where it may be left out."""
    name = argument.metavar or argument.name.upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _spelling(flag):
    """All names of a flag, and what it takes."""
    names = ", ".join(f"`{name}`" for name in (*flag.opts, *flag.secondary_opts))
    value = flag.metavar or "|".join(get_args(flag.type_descriptor.annotation))
    return f"{names} `{_cell(value)}`" if value else names


def _default(flag):
    """The default, of a flag that takes a value and has one."""
    has_value = flag.param_type_name == "option" and not flag.is_flag
    return f" Default: `{flag.default}`." if has_value and flag.default is not None else ""


def _cell(text):
    """A text on one line of a Markdown table."""
    return " ".join(text.split()).replace("|", r"\|")
