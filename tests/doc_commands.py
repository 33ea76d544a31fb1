"""Commands and their flags as docs/commands.md has them, written from the command line itself."""

from typer.main import get_command

from profiler.cli import app


def commands():
    """A section for each command: what it does, its arguments, its flags."""
    known = get_command(app).commands
    shown = [(name, command) for name, command in known.items() if not command.hidden]
    return "\n".join(_section(name, command) for name, command in shown)


def _section(name, command):
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    flags = [p for p in command.params if p.param_type_name == "option"]
    usage = " ".join((f"profiler {name}", *(_argument(each) for each in arguments)))
    lines = [f"## {name}", "", f"`{usage}`", "", " ".join(command.help.split()), ""]
    named = [(f"`{_argument(each)}`", each) for each in arguments]
    named += [(_spelling(each), each) for each in flags]
    if named:
        lines += ["| argument or flag | |", "|---|---|"]
        lines += [
            f"| {spelling} | {_cell(each.help)}{_default(each)} |" for spelling, each in named
        ]
        lines.append("")
    return "\n".join(lines)


def _argument(argument):
    name = argument.metavar or argument.name.upper()
    return name if argument.required or name.startswith("[") else f"[{name}]"


def _spelling(flag):
    names = ", ".join(f"`{name}`" for name in (*flag.opts, *flag.secondary_opts))
    return f"{names} `{_cell(flag.metavar)}`" if flag.metavar else names


def _default(flag):
    """The default, of a flag that takes a value and has one."""
    has_value = flag.param_type_name == "option" and not flag.is_flag
    return f" Default: `{flag.default}`." if has_value and flag.default is not None else ""


def _cell(text):
    return " ".join(text.split()).replace("|", r"\|")
