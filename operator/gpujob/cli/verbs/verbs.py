"""The verbs with their options; each verb is a function of `commands`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gpujob.cli.input.options import HELP, Option, Verb, overview, parser_of, values_of, verb_of
from gpujob.cli.input.request import TABLES, Request
from gpujob.cli.verbs import commands
from gpujob.values.errors import BadInput
from gpujob.values.names import NO_NAMESPACE, is_namespace
from gpujob.values.untrusted import one_line

ABOUT: Final = "Where would this GPU job run, why there, and at what cost? Decides like the operator."
MANIFEST: Final = Option(("--filename", "-f"), "A file with GPUJobs; - reads stdin.", metavar="JOB", required=True)
SOME_MANIFEST: Final = Option(("--filename", "-f"), "A file with GPUJobs, in place of NAME.", metavar="JOB")
JOB_NAME: Final = Option(("name",), "A GPUJob of the cluster.", metavar="NAME")
WHY_NOT: Final = Option(("--why-not",), "Explain this pool, in place of the next best ones.", metavar="POOL")
CLUSTER: Final = Option(
    ("--cluster",), "A file with Kubernetes objects, in place of a live cluster; - reads stdin.", metavar="FILE"
)
CATALOG: Final = Option(("--catalog",), "A catalog in place of the shipped one.", metavar="FILE")
PRICE: Final = Option(
    ("--price",),
    "Dollars an hour of an accelerator's device or of a node of an instance type, in place of list prices; can be repeated.",
    metavar="NAME=DOLLARS",
    repeated=True,
)
IMAGE_MIRROR: Final = Option(
    ("--image-mirror",),
    "The mirror of a registry, for images of jobs; can be repeated.",
    metavar="FROM=TO",
    repeated=True,
)
OPERATOR_NAMESPACE: Final = Option(
    ("--operator-namespace",),
    "The operator's namespace, which has the prices of its chart.",
    metavar="NAME",
    default="gpujob-system",
)
KUBECONFIG: Final = Option(("--kubeconfig",), "The kubeconfig, without --cluster.", metavar="FILE")
CONTEXT: Final = Option(("--context",), "The kubeconfig's context, without --cluster.", metavar="NAME")
NAMESPACE: Final = Option(("--namespace", "-n"), "The namespace of jobs that name none.", metavar="NAME")
SHOWN: Final = Option(
    ("--output", "-o"),
    "The output format; wide shows every fact, in lines wider than 120 columns.",
    choices=(*TABLES, "json", "yaml"),
    default=TABLES[0],
)
OBJECTS: Final = Option(("--output", "-o"), "The output format.", choices=("yaml", "json"), default="yaml")
ALL: Final = Option(("--all",), "With -o json or yaml: all candidates, not only the best of each pool.")
PAGE: Final = Option(("--html",), "Also write the plan as a page with a picture of prices and speeds.", metavar="FILE")
NO_COLOR: Final = Option(("--no-color",), "No colours; the variable NO_COLOR does the same.")
WRITTEN: Final = Option(
    ("--output", "-o"), "Where to write; .json writes JSON, - is stdout.", metavar="FILE", default="-"
)
JOBS_OF: Final = Option(
    ("--namespace", "-n"), "The jobs of this namespace; the context's own when absent.", metavar="NAME"
)
EVERYWHERE: Final = Option(("--all-namespaces", "-A"), "The jobs of all namespaces.")
EVERY: Final = Option(("--every",), "Seconds between two refreshes.", metavar="SECONDS", default="2")
ONCE: Final = Option(("--once",), "Print once and end.")
FOLLOW: Final = Option(("--follow", "-f"), "Follow the output until the pods have ended.")
RANK: Final = Option(("--rank",), "Only the pod of this number, from 0; all when absent.", metavar="N")
ATTEMPT: Final = Option(("--attempt",), "The pods of this attempt, from 1; the newest when absent.", metavar="N")
WANTED: Final = Option(("--for",), "The state to wait for.", choices=("complete", "running"), default="complete")
TIMEOUT: Final = Option(
    ("--timeout",), "The longest wait: 600 (seconds), 90m or 12h; no limit when absent.", metavar="TIME"
)
BY: Final = Option(("--by",), "The groups: namespace, profile, pool, job.", metavar="WORDS", default="namespace")
SINCE: Final = Option(("--since",), "The time to look back: 90m, 12h, 30d or 4w.", metavar="TIME", default="30d")
SPENT_IN: Final = Option(("--namespace", "-n"), "The jobs of this namespace; of all when absent.", metavar="NAME")
SUMS: Final = Option(
    ("--output", "-o"), "The output format.", choices=("table", "csv", "json", "yaml"), default="table"
)
SECTIONS: Final = Option(
    ("sections",),
    "accelerators, runtimes, stacks, prices, features, throughputs, models or speeds; all when absent.",
    metavar="SECTION",
    repeated=True,
)
REASONS: Final = Option(("reasons",), "Reasons, such as MemTooSmall; all when absent.", metavar="REASON", repeated=True)
LISTED: Final = Option(("--output", "-o"), "The output format.", choices=("table", "json", "yaml"), default="table")
RUNTIMES: Final = Option(("runtimes",), "Runtimes of the catalog; all when absent.", metavar="RUNTIME", repeated=True)
REGISTRY_CA: Final = Option(
    ("--registry-ca",), "Certificates in PEM to trust for registries, in addition to the system's.", metavar="FILE"
)
REDACTED: Final = Option(("--cluster",), "Redact this description, in place of a live cluster.", metavar="FILE")
BEFORE_UNINSTALL: Final = Option(
    ("--before-uninstall",), "Show only what happens to jobs and objects if you uninstall the operator now."
)
WORLD: Final = (CLUSTER, CATALOG, PRICE, IMAGE_MIRROR, OPERATOR_NAMESPACE)
"""Inputs of a plan in addition to the job."""
ACCOUNT: Final = (KUBECONFIG, CONTEXT)
"""The account for requests to a live cluster."""

VERBS: Final[Mapping[str, Verb]] = {
    "plan": Verb(commands.plan, (MANIFEST, *WORLD, SHOWN, ALL, PAGE, NAMESPACE, *ACCOUNT, NO_COLOR)),
    "render": Verb(commands.render, (MANIFEST, *WORLD, OBJECTS, NAMESPACE, *ACCOUNT)),
    "explain": Verb(
        commands.explain, (JOB_NAME, SOME_MANIFEST, WHY_NOT, *WORLD, SHOWN, ALL, NAMESPACE, *ACCOUNT, NO_COLOR)
    ),
    "pools": Verb(commands.pools, (*WORLD, SHOWN, *ACCOUNT, NO_COLOR)),
    "doctor": Verb(commands.doctor, (*WORLD, BEFORE_UNINSTALL, SHOWN, NAMESPACE, *ACCOUNT, NO_COLOR)),
    "top": Verb(commands.top, (JOBS_OF, EVERYWHERE, EVERY, ONCE, *ACCOUNT, NO_COLOR)),
    "logs": Verb(commands.logs, (JOB_NAME, FOLLOW, RANK, ATTEMPT, NAMESPACE, *ACCOUNT)),
    "wait": Verb(commands.wait, (JOB_NAME, WANTED, TIMEOUT, NAMESPACE, *ACCOUNT)),
    "cost": Verb(commands.cost, (BY, SINCE, SUMS, SPENT_IN, *ACCOUNT, NO_COLOR)),
    "reasons": Verb(commands.reasons, (REASONS, LISTED, NO_COLOR)),
    "catalog": Verb(commands.catalog, (SECTIONS, CATALOG, SHOWN, NO_COLOR)),
    "catalog pin": Verb(commands.pin, (RUNTIMES, CATALOG, IMAGE_MIRROR, REGISTRY_CA, OBJECTS)),
    "capture": Verb(commands.capture, (WRITTEN, REDACTED, OPERATOR_NAMESPACE, *ACCOUNT)),
}

USUAL: Final[Mapping[str, str]] = {
    **dict.fromkeys(("validate", "check", "lint", "test", "simulate", "schedule", "why"), "plan -f JOB"),
    **dict.fromkeys(("describe", "status", "show", "inspect", "info"), "explain NAME"),
    **dict.fromkeys(("list", "ls", "get", "ps", "jobs", "squeue", "queue"), "top, or kubectl get gpujobs"),
    **dict.fromkeys(("nodes", "gpus", "sinfo"), "pools"),
    **dict.fromkeys(("submit", "apply", "create", "run", "start", "sbatch", "srun"), "kubectl apply -f JOB"),
    **dict.fromkeys(("delete", "cancel", "stop", "kill", "scancel", "rm"), "kubectl delete gpujob NAME"),
    **dict.fromkeys(("suspend", "pause", "resume"), "spec.suspend of the GPUJob: kubectl edit gpujob NAME"),
}
"""Words of other tools, and what to write in their place."""

PREFIXES: Final = ("gpujob", "gpujobs", "gj", "gpupool", "gpupools", "gpool")
"""The kinds that kubectl writes before a name: gpujob/train, gpujobs.gpujob.dev/train."""


def _bare(name: str) -> str:
    """A name without its kind; a name has no slash."""
    kind, _, rest = name.partition("/")
    return rest if kind.partition(".")[0].lower() in PREFIXES else name


def run_verb(arguments: list[str], program: str) -> int:
    """Runs one command; returns its exit code. Raises BadInput for an invalid command line."""
    if not arguments or arguments[0] in HELP:
        print(overview(VERBS, program, ABOUT))
        return 0
    word, *rest = arguments
    if rest and f"{word} {rest[0]}" in VERBS:
        word, rest = f"{word} {rest[0]}", rest[1:]
    if word not in VERBS and (meant := USUAL.get(word.lower())):
        raise BadInput(f"no such command '{word}'; did you mean {meant}?")
    verb, name = verb_of(VERBS, word, program), f"{program} {word}"
    if HELP.intersection(rest):
        print(parser_of(verb, name).format_help(), end="")
        return 0
    values = values_of(verb, rest, name)
    said: dict[str, Any] = {option.name: values[option.name] for option in verb.options}
    for option in (NAMESPACE, OPERATOR_NAMESPACE):
        given = said.get(option.name)
        if given == "":
            raise BadInput(f"{option.flags[-1]}: is empty; name a namespace, or leave {option.flags[-1]} out")
        if given and not is_namespace(given):
            raise BadInput(f"{option.flags[-1]}: {NO_NAMESPACE.format(one_line(given[:60]))}")
    for option in (JOB_NAME, WHY_NOT):
        if said.get(option.name):
            said[option.name] = _bare(said[option.name])
    return verb.act(Request(**said))
