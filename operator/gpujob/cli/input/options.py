"""The command line: a verb and its options. argparse, because it costs a tenth of typer's start time.

Only the requested verb's parser is built. Every mistake is a BadInput of one sentence with the remedy.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from keyword import iskeyword
from typing import Any, Final, NoReturn

from gpujob.values.errors import BadInput

HELP: Final = frozenset({"-h", "--help"})


@dataclass(frozen=True)
class Option:
    """One option: its spellings (the long one first), its meaning, and its values."""

    flags: tuple[str, ...]
    help: str
    metavar: str | None = None
    choices: tuple[str, ...] = ()
    default: str | None = None
    required: bool = False
    repeated: bool = False
    """Whether it can be said several times; its value is a list."""

    @property
    def name(self) -> str:
        """The argument of the verb's function that gets the value."""
        word = self.flags[0].lstrip("-").replace("-", "_")
        return f"{word}_" if iskeyword(word) else word

    @property
    def is_switch(self) -> bool:
        """Whether it is a flag without a value."""
        return self.metavar is None and not self.choices

    @property
    def is_positional(self) -> bool:
        """Whether it is positional."""
        return not self.flags[0].startswith("-")


@dataclass(frozen=True)
class Verb:
    """A verb: its function, whose docstring is the help and whose result is the exit code."""

    act: Callable[..., int]
    options: tuple[Option, ...]

    @property
    def summary(self) -> str:
        """The first line of its help."""
        return (self.act.__doc__ or "").partition("\n")[0]


def overview(verbs: Mapping[str, Verb], program: str, about: str) -> str:
    """The help of the whole program."""
    widest = max(map(len, verbs))
    listed = "\n".join(f"  {name:{widest}}  {verb.summary}" for name, verb in verbs.items())
    return (
        f"usage: {program} VERB [options]\n\n{about}\n\nverbs:\n{listed}\n\n"
        f"options:\n  -h, --help  Show this, or with a verb its options.\n  --version   Show the version."
    )


def verb_of(verbs: Mapping[str, Verb], word: str, program: str) -> Verb:
    """The verb of a word; raises BadInput with the closest one."""
    if word in verbs:
        return verbs[word]
    what = f"no such option: {word}" if word.startswith("-") else f"no such command '{word}'"
    raise BadInput(what + _remedy(word, (*verbs, *HELP, "--version"), f"{program} --help"))


def values_of(verb: Verb, arguments: Sequence[str], program: str) -> dict[str, Any]:
    """The value of each option by its name; raises BadInput."""
    parser = parser_of(verb, program)
    found, unknown = parser.parse_known_args(arguments)
    if unknown:
        flags = tuple(flag for option in verb.options for flag in option.flags if flag.startswith("--"))
        word = unknown[0].partition("=")[0]
        what = f"no such option: {word}" if word.startswith("-") else f"unexpected argument '{word}'"
        raise BadInput(what + (_as_a_file(verb, found, word) or _remedy(word, flags, f"{program} --help")))
    values = vars(found)
    for option in verb.options:
        _check(option, values[option.name], f"see {program} --help")
        if option.repeated:
            values[option.name] = tuple(values[option.name] or ())
    return values


def _as_a_file(verb: Verb, found: argparse.Namespace, word: str) -> str:
    """The remedy for a file without -f before it; empty if it is no file, or -f was given."""
    named = next((option for option in verb.options if "-f" in option.flags), None)
    is_file = not word.startswith("-") and word.endswith((".yaml", ".yml", ".json"))
    return f"; did you mean -f {word}?" if named and is_file and getattr(found, named.name) is None else ""


def _check(option: Option, value: Any, remedy: str) -> None:
    if option.required and value is None:
        said = " ".join(filter(None, (option.flags[-1], option.metavar)))
        raise BadInput(f"option {said} is missing; {remedy}")
    if option.choices and value not in option.choices:
        raise BadInput(f"{'/'.join(option.flags)}: {value!r} is not one of {', '.join(option.choices)}; {remedy}")


def parser_of(verb: Verb, program: str) -> argparse.ArgumentParser:
    """The parser of one verb."""
    parser = _Parser(
        prog=program,
        description=verb.act.__doc__,
        allow_abbrev=False,
        add_help=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for option in verb.options:
        if option.is_switch:
            parser.add_argument(*option.flags, dest=option.name, action="store_true", help=option.help)
        elif option.is_positional:
            parser.add_argument(
                option.flags[0], metavar=option.metavar, nargs="*" if option.repeated else "?", help=option.help
            )
        else:
            parser.add_argument(
                *option.flags,
                dest=option.name,
                action="append" if option.repeated else "store",
                metavar=option.metavar or "{" + ",".join(option.choices) + "}",
                default=option.default,
                help=option.help + (f" Default: {option.default}." if option.default else ""),
            )
    parser.add_argument("-h", "--help", action="store_true", help="Show this.")
    return parser


class _Parser(argparse.ArgumentParser):
    """argparse that raises its errors."""

    def error(self, message: str) -> NoReturn:
        raise BadInput(f"{message.removeprefix('argument ')}; see {self.prog} --help")


def _remedy(word: str, known: tuple[str, ...], see: str) -> str:
    near = get_close_matches(word, known, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else f"; see {see}"
