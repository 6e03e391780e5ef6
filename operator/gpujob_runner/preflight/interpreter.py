"""The Python that the command starts: by its name, its shebang, or the text that it passes to a shell.

A wrong guess does no harm: if a command cannot be read, the first python3 on PATH is probed.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

PYTHON = re.compile(r"python(\d+(\.\d+)?)?t?")
SHELLS = ("sh", "bash", "dash", "ash", "zsh", "busybox")
BEFORE = (
    "env",
    "exec",
    "nohup",
    "time",
    "nice",
    "ionice",
    "stdbuf",
    "tini",
    "dumb-init",
    "command",
    "numactl",
    "setsid",
)
"""Programs that start the program that follows their own options."""

KEYWORDS = ("if", "then", "else", "elif", "while", "until", "do", "!", "{", "time")
"""Words of a shell that a command may follow."""

TAKES_VALUE = ("-n", "-c", "-o", "-e", "-i", "-u", "-N", "-m")
MOST_STEPS = 8
READ_AT_MOST = 65536


@dataclass(frozen=True)
class Interpreter:
    """A Python, and the folder of the script that it runs, which comes first on its path."""

    path: str
    folder: str = ""


@dataclass(frozen=True)
class Missing:
    """A program that the command starts and that the image does not have."""

    program: str


def first_python(path: str) -> str | None:
    """The python3 or python that PATH leads to."""
    return shutil.which("python3", path=path) or shutil.which("python", path=path)


def find_interpreter(words: Sequence[str], environment: Mapping[str, str], *, named: bool) -> object:
    """The Interpreter that a command uses, Missing when its program is not in the image, None when it is unknown.

    `named`: the words are the job's whole command; else they may be arguments of the image's own entry point.
    """
    path = environment.get("PATH") or os.defpath
    found = _of_words(list(words), path, MOST_STEPS)
    if isinstance(found, Missing) and not named:
        found = None
    if found is None:
        python = first_python(path)
        return Interpreter(python, os.getcwd()) if python else None
    return found


def _of_words(words: list[str], path: str, steps: int) -> object:
    words = _after_wrappers(words)
    if not words or steps <= 0:
        return None
    program, rest = words[0], words[1:]
    name = os.path.basename(program)
    found = shutil.which(program, path=path)
    if found is None:
        return Missing(program)
    if PYTHON.fullmatch(name):
        return Interpreter(found, _script_folder(rest))
    if name in SHELLS:
        return _of_shell(rest, path, steps - 1)
    return _of_file(found, path, steps - 1)


def _after_wrappers(words: list[str]) -> list[str]:
    """The words from the program on that env, nohup and their like start."""
    words = list(words)
    while words and os.path.basename(words[0]) in BEFORE:
        words.pop(0)
        while words and (words[0].startswith("-") or re.match(r"[A-Za-z_]\w*=", words[0])):
            option = words.pop(0)
            if option == "--":
                break
            if option in TAKES_VALUE and words:
                words.pop(0)
    return words


def _of_shell(words: list[str], path: str, steps: int) -> object:
    """A shell with -c and a text, or with a script."""
    words = words[1:] if words and words[0] in SHELLS else words
    text_follows = False
    while words and words[0].startswith(("-", "+")) and words[0] != "-":
        option = words.pop(0)
        text_follows = text_follows or (not option.startswith("--") and "c" in option[1:])
        if option[-1] in "oO" and not option.startswith("--") and words:
            words.pop(0)
    if not words:
        return None
    return _of_script(words[0] if text_follows else _read(words[0]), path, steps)


def _of_script(text: str, path: str, steps: int) -> object:
    """The first line of a shell's text that starts a Python, by itself or through a launcher's shebang."""
    for line in text.splitlines():
        for command in _commands(line):
            activated = _activated(command)
            if activated:
                path = activated + os.pathsep + path
                continue
            found = _of_words(command, path, steps) if steps > 0 else None
            # What a shell's text names and PATH lacks may be a function, a keyword or a builtin.
            if isinstance(found, Interpreter):
                return found
    return None


def _commands(line: str) -> list[list[str]]:
    """A line's commands as lists of words; nothing of a line that cannot be split."""
    try:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()")
        lexer.whitespace_split = True
        words = list(lexer)
    except ValueError:
        return []
    commands: list[list[str]] = [[]]
    for word in words:
        if word and set(word) <= set(";&|()"):
            commands.append([])
        elif commands[-1] or not (word in KEYWORDS or re.match(r"[A-Za-z_]\w*=", word)):
            commands[-1].append(word)
    return [command for command in commands if command]


def _activated(command: list[str]) -> str:
    """The folder of programs of a virtual environment that `source …/activate` switches to."""
    if len(command) == 2 and command[0] in ("source", ".") and os.path.basename(command[1]) == "activate":
        return os.path.dirname(os.path.abspath(command[1]))
    return ""


def _of_file(file: str, path: str, steps: int) -> object:
    """What a program's shebang names; pip writes a long one as a line of a shell."""
    lines = _read(file).splitlines()[:2]
    if not lines or not lines[0].startswith("#!"):
        return None
    shebang = _after_wrappers(lines[0][2:].split())
    if not shebang:
        return None
    if os.path.basename(shebang[0]) in SHELLS:
        trick = re.match(r"""'''exec' (?:"([^"]+)"|(\S+))""", lines[1]) if len(lines) > 1 else None
        if trick:
            return _of_words([trick.group(1) or trick.group(2)], path, steps)
        return _of_script(_read(file), path, steps)
    found = _of_words(shebang, path, steps)
    return found if not isinstance(found, Interpreter) else Interpreter(found.path, os.path.dirname(file))


def _script_folder(words: list[str]) -> str:
    """The folder that Python puts first on its path: the script's, else the current one."""
    for word in words:
        if word in ("-m", "-c", "-"):
            break
        if not word.startswith("-"):
            return os.path.dirname(os.path.abspath(word))
    return os.getcwd()


def _read(file: str) -> str:
    try:
        with open(file, "rb") as opened:
            return opened.read(READ_AT_MOST).decode("utf-8", "replace")
    except OSError:
        return ""
