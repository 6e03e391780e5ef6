"""Commands within the sentences of a page: each names a program's subcommand, options and values that there are.

Commands in blocks are run (commands_of_pages); what a sentence mentions is often a part of one.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from gpujob.cli.input.options import Option
from gpujob.cli.verbs.catalog import SECTIONS
from gpujob.cli.verbs.verbs import VERBS
from gpujob.values.reasons import Reason
from tests.commands_of_pages import PAGES, ROOT
from tests.contract.test_chart_rendering import client_program

MORE: Final = ("CHANGELOG.md", "SECURITY.md", "ROADMAP.md")
_BLOCK: Final = re.compile(r"^ *```.*?^ *```", re.DOTALL | re.MULTILINE)
_SPAN: Final = re.compile(r"(?<!`)`([^`]+)`(?!`)")

OF_OTHERS: Final = {
    "--build-arg": "docker build",
    "--gpu_ids": "accelerate launch",
    "--include": "deepspeed",
    "--kv-cache-dtype": "vllm serve",
    "--metric-labels-allowlist": "kube-state-metrics",
    "--nnodes": "torchrun",
    "--nproc_per_node": "torchrun",
    "--num_machines": "accelerate launch",
    "--num_processes": "accelerate launch",
    "--num_gpus": "deepspeed",
    "--tensor-parallel-size": "vllm serve",
    "--rdzv-conf": "torchrun",
    "--secret": "docker build",
    "-E": "python",
    "-I": "python",
    "-S": "python",
}
"""Options that a page names without their program, which is none of those that are here."""
PLUGINS: Final = ("krew",)
"""Subcommands of kubectl that are programs of others."""


def spans(page: str) -> Iterator[str]:
    """The code within the sentences of a page, each on one line."""
    for span in _SPAN.findall(_BLOCK.sub("", (ROOT / page).read_text())):
        yield " ".join(span.split())


def mentioned(*programs: str) -> list[str]:
    """The spans of all pages that begin with one of these words, once each."""
    return sorted({span for page in (*PAGES, *MORE) for span in spans(page) if span.startswith(programs)})


def words_of(span: str) -> list[str]:
    """The words of a command up to a pipe; brackets around what can be left out, and an ellipsis, are no words."""
    plain = re.sub(r"\$\([^)]*\)", "INNER", re.sub(r"\[(-[^]]*)\]", r"\1", span)).replace("…", "")
    return shlex.split(plain.partition(" | ")[0])


# --- kubectl gpujob ---------------------------------------------------------------------------------------------------

OURS: Final = mentioned("kubectl gpujob", "gpujob ")


def mistakes(span: str) -> list[str]:
    """What a command of ours names that is not there; empty where all is."""
    words = words_of(span.removeprefix("kubectl "))[1:]
    if not words:
        return []
    name = " ".join(words[:2]) if " ".join(words[:2]) in VERBS else words[0]
    if name not in VERBS:
        return [f"no command {name}"]
    options, rest = VERBS[name].options, words[len(name.split()) :]
    # The value of an option that is not there looks like a word.
    return [*_of_options(options, rest)] or [*_of_words(name, _positional(options, rest))]


def _positional(options: tuple[Option, ...], words: list[str]) -> list[str]:
    taking = {flag for option in options if not option.is_switch for flag in option.flags}
    return [word for before, word in zip(["", *words], words, strict=False) if before not in taking and word[:1] != "-"]


def _of_options(options: tuple[Option, ...], words: list[str]) -> Iterator[str]:
    known = {flag: option for option in options if not option.is_positional for flag in option.flags}
    for number, word in enumerate(words):
        flag, _, value = word.partition("=")
        if not word.startswith("-"):
            continue
        if flag not in known:
            yield f"no option {flag}"
            continue
        value = value or next(iter(words[number + 1 :]), "")
        choices = known[flag].choices
        if choices and not value.isupper() and not {*value.split("|")} <= {*choices}:
            yield f"{flag} takes {', '.join(choices)}, not {value}"


def _of_words(verb: str, words: list[str]) -> Iterator[str]:
    known = {"catalog": {*SECTIONS}, "reasons": {str(reason) for reason in Reason}}.get(verb)
    if known is not None:
        yield from (f"{verb} has no {word}" for word in words if word not in known and not word.isupper())
    elif words and not any(option.is_positional for option in VERBS[verb].options):
        yield f"{verb} takes no {words[0]}"


@pytest.mark.parametrize("span", [span for span in OURS if " | " not in span])
def test_a_command_of_ours_is_there_with_its_options(span: str) -> None:
    assert mistakes(span) == []


def test_a_page_that_lists_the_commands_lists_all() -> None:
    (listed,) = [span for span in OURS if " | " in span]
    assert sorted(listed.removeprefix("kubectl gpujob ").split(" | ")) == sorted(VERBS)


@pytest.mark.parametrize(
    ("span", "said"),
    [
        ("kubectl gpujob plam -f JOB", "no command plam"),
        ("kubectl gpujob plan --filname JOB", "no option --filname"),
        ("kubectl gpujob explain NAME -o tabel", "-o takes table, wide, json, yaml, not tabel"),
        ("kubectl gpujob catalog gpus", "catalog has no gpus"),
        ("kubectl gpujob reasons MemTooBig", "reasons has no MemTooBig"),
        ("kubectl gpujob pools NAME", "pools takes no NAME"),
        ("gpujob catalog pin --by pool", "no option --by"),
        ("kubectl gpujob logs NAME [--rang N]", "no option --rang"),
    ],
)
def test_a_slip_would_be_found(span: str, said: str) -> None:
    assert mistakes(span) == [said]


# --- make, python -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("span", mentioned("make "))
def test_a_target_of_make_is_there(span: str) -> None:
    targets = set(re.findall(r"^([A-Za-z0-9./-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    words = [word for word in words_of(span)[1:] if "=" not in word]
    assert words
    assert [word for word in words if word not in targets] == []


@pytest.mark.parametrize("span", mentioned("python "))
def test_a_module_or_a_script_of_python_is_there(span: str) -> None:
    first, *rest = words_of(span)[1:]
    if first == "-m":
        assert importlib.util.find_spec(rest[0]) is not None
    elif first.startswith("-"):
        assert first in OF_OTHERS
    elif "/" in first:
        assert (ROOT / first).is_file()


# --- kubectl, helm ----------------------------------------------------------------------------------------------------

_OF_TWO_WORDS: Final = ("auth", "create", "plugin")
_THEIRS: Final = [span for span in mentioned("kubectl ", "helm ") if not span.startswith("kubectl gpujob")]


@cache
def helped(program: str, *subcommand: str) -> str:
    """The help of a subcommand, with the options that all of them have; empty where it does not exist."""
    shown = subprocess.run(
        [client_program(program), *subcommand, "--help"], capture_output=True, text=True, check=False, timeout=60
    )
    everywhere = (
        subprocess.run([client_program(program), "options"], capture_output=True, text=True, check=False, timeout=60)
        if program == "kubectl"
        else None
    )
    # Both show the help of what there is for a word that they do not know.
    there = f"{program} {' '.join(subcommand)}" in shown.stdout
    return shown.stdout + (everywhere.stdout if everywhere else "") if shown.returncode == 0 and there else ""


@pytest.mark.parametrize("span", _THEIRS)
def test_a_command_of_kubectl_or_helm_is_there_with_its_options(span: str) -> None:
    program, *words = words_of(span)
    while words[0].startswith("-"):  # An option of all subcommands, with its value.
        words = words[2:]
    subcommand = words[: 2 if words[0] in _OF_TWO_WORDS else 1]
    if subcommand[0] in PLUGINS:
        return
    text = helped(program, *subcommand)
    assert text, f"{program} has no {' '.join(subcommand)}"
    flags = [word.partition("=")[0] for word in words_of(span)[1:] if re.match(r"--?[a-zA-Z]", word)]
    assert [flag for flag in flags if not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", text)] == []


def test_an_option_alone_is_one_of_a_program_that_the_pages_speak_of() -> None:
    known = {flag for verb in VERBS.values() for option in verb.options for flag in option.flags}
    known |= OF_OTHERS.keys()
    theirs = [helped("kubectl", verb) for verb in ("apply", "delete", "wait", "get", "logs")]
    theirs += [helped("helm", verb) for verb in ("install", "upgrade")]
    alone = {words_of(span)[0].partition("=")[0] for span in mentioned("-") if re.match(r"--?[a-zA-Z]", span)}
    assert len(alone) > 20
    for flag in sorted(alone - known):
        assert any(re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", text) for text in theirs), flag
    assert OF_OTHERS.keys() - alone - {"-I"} == set(), "no page names them any more"


def test_the_pages_mention_many_commands() -> None:
    assert (len(OURS) > 30, len(_THEIRS) > 30, len(mentioned("make ")) > 25) == (True, True, True)
    assert Path(client_program("kubectl")).is_file()
