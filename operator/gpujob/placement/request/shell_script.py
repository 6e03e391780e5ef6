"""The commands that a command line starts: itself, or those of a shell's script. What cannot be read for sure is none of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import takewhile
from typing import Final, NamedTuple

SHELLS: Final = frozenset({"sh", "bash", "dash", "ash", "zsh"})
WITHOUT_GPUS: Final = frozenset({
    "echo", "printf", "cat", "cd", "set", "source", ".", "mkdir", "ulimit", "umask", "true", ":", "tee", "sleep", "wait", "date", "ls",
    "pip", "pip3", "apt-get", "git", "cp", "mv", "rm", "ln", "tar", "chmod", "wget", "curl", "which", "exit", "trap", "test", "[",
    "nvidia-smi", "rocm-smi", "amd-smi",
})  # fmt: skip
"""Commands that start no program on GPUs; their words are only text."""

LONGEST: Final = 4096
"""Characters of one word that are searched for options: a longer one is a script of its own."""

_TOKEN: Final = re.compile(
    r"""(?P<space>[ \t\r]+|\\\n|\#[^\n]*)
    |(?P<end>[;&|()<>\n]+)
    |(?P<word>(?:[^\s;&|()<>'"\\]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+)""",
    re.VERBOSE | re.DOTALL,
)
_QUOTED: Final = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)"|\\(.)""", re.DOTALL)
_REDIRECTS: Final = re.compile("&?[<>]+[&|]?")
_OPENS, _CLOSES = frozenset({"if", "case", "for", "while", "until", "{"}), frozenset({"fi", "esac", "done", "}"})
_LEFT_OUT: Final = frozenset({"then", "do", "else", "elif", "!", "time", "exec"}) | _OPENS | _CLOSES


class Step(NamedTuple):
    """A command: its words, at least one, and whether it runs in every case, in no branch and no loop."""

    words: Sequence[str]
    sure: bool = True


def steps_of(words: Sequence[str], given: Collection[str] | None = ()) -> Sequence[Step]:
    """The commands that a command line starts. `given`: the variables that its container has, None if they are unknown; of others the
    default counts (`${N:-8}`, `${N:=8}`).
    """
    script = _script(words)
    if script is None:
        return [Step(line)] if (line := [word for word in words if len(word) <= LONGEST]) else []
    if len(script) > LONGEST:
        return []
    steps = _of_script(_with_defaults(script, given))
    return [inner for step in steps for inner in _within(step, given, last=step is steps[-1])]


_DEFAULT: Final = re.compile(r"\$\{([A-Za-z_]\w*):?([-=])([0-9]{1,6})\}")
_SETS_ANY: Final = re.compile(r"(?:^|[\s;&|({])(?:(?:source|\.|eval)\s|(?:export|declare)\s+[\"']?\$)")
"""Commands that may set any variable."""
_OF_OPERATOR: Final = re.compile(
    r"PET_\w+|GPUJOB_\w+|(?:LOCAL_)?(?:RANK|WORLD_SIZE)|NODE_RANK|MASTER_\w+|OMP_NUM_THREADS"
)
"""Variables that the operator sets, some of them for some gangs only."""


_EXPANDED: Final = re.compile(r"\$\{[A-Za-z_]\w*")
_NAME: Final = re.compile(r"(?<![\w$])[A-Za-z_]\w*")


def _with_defaults(script: str, given: Collection[str] | None) -> str:
    """A script with the defaults of variables that have no value: neither the container nor the script gives them one."""
    if given is None or not _DEFAULT.search(script) or _SETS_ANY.search(script):
        return script
    known, at = {*given, *_NAME.findall(_EXPANDED.sub("", script))}, 0
    while found := _DEFAULT.search(script, at):
        name, kind, value = found.groups()
        at = found.end()
        if name not in known and not _OF_OPERATOR.fullmatch(name):
            rest = script[at:]
            if kind == "=":  # From here on the variable has the value.
                rest = re.sub(rf"\$(?:{name}\b|\{{{name}\}})", value, rest)
            at = found.start() + len(value)
            script = script[: found.start()] + value + rest
    return script


def _within(step: Step, given: Collection[str] | None, *, last: bool) -> Sequence[Step]:
    """The commands of a step that starts a shell with a script of its own, whose variables end with it; else the step."""
    own = list(takewhile(_ASSIGNED.match, step.words))
    started = step.words[len(own) :]
    if not started or started[0].rsplit("/", 1)[-1] not in SHELLS or (script := _script(started)) is None:
        return [step]
    if "\\" in script:
        return []  # What is left of the outer script's quotes is unknown.
    assigned = (word.partition("=")[0] for word in own)
    found = steps_of(started, None if given is None else {*given, *assigned})
    return [Step([*own, *words], sure and step.sure and (last or words[0] != "export")) for words, sure in found]


_ASSIGNED: Final = re.compile(r"[A-Za-z_]\w*=")


def _script(words: Iterable[str]) -> str | None:
    """The script after a shell's -c; None if the command line has none."""
    rest = iter(words)
    if not any(word.rsplit("/", 1)[-1] in SHELLS for word in rest):
        return None
    for option in takewhile(lambda word: word.startswith("-"), rest):
        if option.endswith("c") and not option.startswith("--"):
            return next(rest, None)
        if option.endswith("o"):
            next(rest, None)
    return None


_HEREDOC: Final = re.compile(r"(?<!<)<<-?[ \t]*(['\"]?)(\w++)\1([^\n]*)\n(?:[^\n]*+\n)*?[ \t]*\2[ \t]*(?=\n|$)")
_TESTS: Final = frozenset({"test", "[", "[[", "grep", "command", "which", "false", "pgrep", "diff", "cmp"})
"""Commands after which `&&` begins a branch: they are run to see whether they fail."""


def _of_script(script: str) -> Sequence[Step]:
    """The commands of a script without its lines of text (`<<`); none of one that starts several at a time (`&`). A step is not sure in
    a loop, a branch (`if`, `||`, `&&` after a test), a function, a subshell or a substitution; none follows `exit`.
    """
    script = _HEREDOC.sub(lambda part: part[3], script)
    steps, command = list[Step](), list[str]()
    depth, parens, at, sure, into, branch = 0, 0, 0, True, False, False
    while token := _TOKEN.match(script, at):
        at = token.end()
        if end := token["end"]:
            if "<<" in end or "&" in re.sub("[>|<]&|&>|&&", "", end):
                return ()
            if into := _REDIRECTS.fullmatch(end) is not None:
                continue
            steps += [Step(command, sure)] if command else []
            if sure and command[:1] == ["exit"]:
                return steps
            parens = max(0, parens + end.count("(") - end.count(")"))
            listed = (branch or bool(command and command[0] in _TESTS)) if "&&" in end else branch
            branch, command = "||" in end or (listed and not {*";\n"} & {*end}), []
        elif word := token["word"]:
            if into:
                into = False
                continue
            depth += (word in _OPENS) - (word in _CLOSES) if not command else 0
            branch |= word == "!" and not command
            if command or word not in _LEFT_OUT:
                sure = sure if command else not (depth or parens or branch)
                command.append(_QUOTED.sub(lambda part: part[1] or part[2] or part[3] or "", word))
    whole = at == len(script) and not depth
    return [*steps, Step(command, sure)] if command and whole else steps
