"""Writes the manual pages: manual.py FOLDER. packaging/man/ holds what it wrote last, and a test says when it is stale.

mortise(1), mortise-COMMAND(1)  from the command line's own tables of commands and options
mortise.conf(7)                 from the settings of abi/abi.toml
libmortise(3), libmortise_pool(3)  from the comments of mortise.h and pool.h
"""

import re
import sys
import tomllib
from pathlib import Path

import typer
from mortise import __version__, errors
from mortise.main import gathered

ROOT = Path(__file__).resolve().parents[1]


def escaped(text: str) -> str:
    """Text of ours as roff: nothing in it is a request, hyphens of options stay hyphens."""
    text = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq").replace("`", "\\(ga")
    return "\n".join("\\&" + line if line.startswith(".") else line for line in text.split("\n"))


def heading(name: str, section: int) -> str:
    return f'.TH {name.upper()} {section} "" "mortise {__version__}" "mortise"\n'


def paragraphs(text: str) -> str:
    parts = [" ".join(part.split()) for part in re.split(r"\n\s*\n", text.strip())]
    return "\n.PP\n".join(escaped(part) for part in parts if part) + "\n"


def item(term: str, text: str) -> str:
    return f".TP\n{term}\n{escaped(' '.join(text.split()))}\n"


def see_also(*pages: tuple[str, int]) -> str:
    return ".SH SEE ALSO\n" + " ,\n".join(f".BR {escaped(name)} ({section})" for name, section in pages) + "\n"


# The command line.


def value_name(option) -> str:
    """What stands behind an option, such as FILE or COUNT."""
    if getattr(option, "is_flag", False):
        return ""
    if option.metavar:
        return option.metavar
    kind = str(getattr(option.type, "name", "")).split()[0]  # a range of numbers is one too
    return {"path": "FILE", "int": "N", "integer": "N", "float": "X"}.get(kind, "TEXT")


def option_item(option) -> str:
    value = value_name(option)
    names = ", ".join(f"\\fB{escaped(name)}\\fR" for name in sorted(option.opts, key=len))
    if option.secondary_opts:
        names += " / " + ", ".join(f"\\fB{escaped(name)}\\fR" for name in option.secondary_opts)
    term = names + (f" \\fI{escaped(value)}\\fR" if value else "")
    text = option.help or ""
    if option.multiple:
        text += " May be repeated."
    if value and option.default not in (None, "", [], ()):
        text += f" Default: {option.default}."
    return item(term, text)


def is_argument(parameter) -> bool:
    return not parameter.opts[0].startswith("-")


def argument_text(argument) -> str:
    metavar = argument.metavar or argument.name.upper()
    return metavar if argument.required else f"[{metavar}]"


def command_page(name: str, command) -> str:
    shown = [p for p in command.params if not getattr(p, "hidden", False) and p.name != "help"]
    options, arguments = [p for p in shown if not is_argument(p)], [p for p in shown if is_argument(p)]
    first, _, rest = command.help.partition("\n\n")
    first = " ".join(first.split())
    sentence, _, more = first.partition(". ")
    synopsis = " ".join([r"[\fIOPTION\fR]..." if options else "", *(rf"\fI{escaped(argument_text(a))}\fR" for a in arguments)]).strip()
    text = heading(f"mortise-{name}", 1)
    text += f".SH NAME\nmortise\\-{name} \\- {escaped(sentence[:1].lower() + sentence[1:].rstrip('.'))}\n"
    text += f".SH SYNOPSIS\n\\fBmortise {name}\\fR {synopsis}\n"
    text += ".SH DESCRIPTION\n" + paragraphs("\n\n".join(part for part in (sentence.rstrip(".") + "." + (" " + more if more else ""), rest) if part))
    if arguments:
        text += ".SH ARGUMENTS\n" + "".join(item(rf"\fI{escaped(a.metavar or a.name.upper())}\fR", a.help or "") for a in arguments)
    if options:
        text += ".SH OPTIONS\n" + "".join(option_item(o) for o in options)
    return text + see_also(("mortise", 1), ("mortise.conf", 7))


STATUSES = {
    errors.DECIDED: "what was asked was done; for mortise run and profile, the program's own status",
    errors.RUN_FAILED: "a run failed",
    errors.WRONG_USE: "the command line is wrong; one line on standard error says what was expected",
    errors.CANNOT_TELL: "no answer could be had, or what was asked cannot work for this program",
    errors.GATE_HIT: "a gate of mortise compare \\-\\-fail\\-if was hit",
}
ENVIRONMENT = {
    "MORTISE_CONF": "settings of the allocators, KEY=VALUE[,KEY=VALUE]..., see mortise.conf(7)",
    "MORTISE_HOME": "where lib/, share/mortise/ and the helpers lie, for another than the installed copy",
    "NO_COLOR": "not empty: no colours; they are off as well where the output is no terminal",
}


def main_page(commands: dict) -> str:
    text = heading("mortise", 1)
    text += ".SH NAME\nmortise \\- compare memory allocators on a program, and run it on one\n"
    text += ".SH SYNOPSIS\n\\fBmortise\\fR \\fICOMMAND\\fR [\\fIOPTION\\fR]... [\\-\\- \\fIPROG\\fR [\\fIARG\\fR]...]\n"
    text += ".SH DESCRIPTION\n" + paragraphs(gathered([]).info.help) + ".SH COMMANDS\n"
    for name, command in commands.items():
        text += item(rf"\fBmortise {name}\fR", " ".join(command.help.partition("\n\n")[0].split()))
    text += ".SH EXIT STATUS\n" + "".join(f".TP\n{status}\n{words}\n" for status, words in STATUSES.items())
    text += ".SH ENVIRONMENT\n" + "".join(item(rf"\fB{name}\fR", words) for name, words in ENVIRONMENT.items())
    text += ".SH EXAMPLE\n.nf\n" + escaped(EXAMPLE) + "\n.fi\n"
    pages = [(f"mortise-{name}", 1) for name in commands]
    return text + see_also(*pages, ("libmortise", 3), ("mortise.conf", 7))


EXAMPLE = """mortise doctor -- ./server --flags
mortise compare -- ./server --flags
mortise run --alloc hslab -- ./server --flags"""


# The settings.


def conf_page() -> str:
    keys = tomllib.loads((ROOT / "abi/abi.toml").read_text())["key"]
    text = heading("mortise.conf", 7) + ".SH NAME\nmortise.conf \\- settings of mortise's allocators\n"
    text += ".SH SYNOPSIS\n.nf\nMORTISE_CONF=\\fIKEY\\fR=\\fIVALUE\\fR[,\\fIKEY\\fR=\\fIVALUE\\fR]...\nMORTISE_\\fIKEY\\fR=\\fIVALUE\\fR\n.fi\n"
    text += ".SH DESCRIPTION\n" + paragraphs(
        "Settings are read once, when the allocator is loaded. A variable of its own overrides the list. An unknown setting, or a value that "
        "does not parse, gives one warning line and changes nothing: a program never ends because of its settings. Programs that run with "
        "more rights than their user (set-uid) ignore them."
    )
    text += ".SH SETTINGS\n"
    for key in keys:
        default = f" Default: {key['default']}." if key["default"] else ""
        text += item(rf"\fB{key['name']}\fR=\fI{escaped(key['type'])}\fR", key["what"].rstrip(".") + "." + default)
    text += ".SH EXAMPLE\n.nf\n" + escaped('MORTISE_CONF="purge_ms=1000,limit=2G" LD_PRELOAD=libmortise-hslab.so ./server') + "\n.fi\n"
    return text + see_also(("mortise", 1), ("mortise-run", 1), ("libmortise", 3))


# The C interfaces.


def uncommented(comment: str) -> list[str]:
    lines = comment.removeprefix("/*").removesuffix("*/").split("\n")
    return [re.sub(r"^ ?\* ?", "", line).rstrip() if number else line.strip() for number, line in enumerate(lines)]


def prose(lines: list[str]) -> str:
    """A comment as paragraphs; lines that are indented by two are code."""
    out, code = [], False
    for line in lines:
        is_code = line.startswith("  ")
        if is_code != code:
            out.append(".PP\n.nf" if is_code else ".fi\n.PP")
            code = is_code
        out.append(escaped(line.strip() if not code else line) or ".PP")
    text = re.sub(r"(\n\.PP)+", "\n.PP", "\n".join(out + ([".fi"] if code else []))).strip()
    return re.sub(r"\n\.PP$", "", text.removeprefix(".PP\n")) + "\n"


def declarations(text: str) -> list[tuple[str, str]]:
    """(comment, code) of each group in a header: a comment in front of, or code after, no blank line between."""
    text = re.sub(r"#ifdef __cplusplus.*?#endif\n", "", text, flags=re.S)
    text = text.replace(" MO_NOEXCEPT", "")
    groups = []
    for block in re.split(r"\n\s*\n", text):
        lines = [line for line in block.split("\n") if not line.startswith(("#if", "#endif", "#include", "#ifndef", "#else", "extern"))]
        block = "\n".join(lines).strip()
        while block:
            comment = ""
            if match := re.match(r"/\*.*?\*/\n?", block, flags=re.S):
                comment, block = match[0].strip(), block[match.end():]
            end = re.search(r"\n(?=/\*)", block)
            code, block = (block[: end.start()], block[end.end():]) if end else (block, "")
            if code.strip():
                groups.append((comment, code.strip()))
    return groups


def library_page(header: Path, library: str, what: str) -> str:
    text = header.read_text()
    banner = re.match(r"/\*.*?\*/", text, flags=re.S)[0]
    include = header.relative_to(ROOT / "include")
    page = heading(library, 3) + f".SH NAME\n{escaped(library)} \\- {escaped(what)}\n"
    page += f".SH SYNOPSIS\n.nf\n#include <{include}>\n.PP\nLink with \\-l{library.removeprefix('lib')}.\n.fi\n"
    page += ".SH DESCRIPTION\n" + prose(uncommented(banner)) + ".SH INTERFACE\n"
    for comment, code in declarations(text[len(banner):]):
        if re.fullmatch(r"#define MORTISE\w*_H", code):
            continue
        page += ".PP\n.nf\n\\fB" + escaped(code) + "\\fR\n.fi\n"
        if comment:
            page += ".RS\n" + prose(uncommented(comment)) + ".RE\n"
    page = page.replace(".SH INTERFACE\n.PP\n", ".SH INTERFACE\n")
    other = "libmortise_pool" if library == "libmortise" else "libmortise"
    return page + see_also((other, 3), ("mortise", 1), ("mortise.conf", 7))


def pages() -> dict[str, str]:
    commands = {name: command for name, command in typer.main.get_command(gathered()).commands.items() if not command.hidden}
    made = {f"mortise-{name}.1": command_page(name, command) for name, command in commands.items()}
    include = ROOT / "include/mortise"
    return made | {
        "mortise.1": main_page(commands),
        "mortise.conf.7": conf_page(),
        "libmortise.3": library_page(include / "mortise.h", "libmortise", "heaps that threads share and that are given back at once"),
        "libmortise_pool.3": library_page(include / "pool.h", "libmortise_pool", "pools of blocks of one size"),
    }


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in pages().items():
        (folder / name).write_text(text)
