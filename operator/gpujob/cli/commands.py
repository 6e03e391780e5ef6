"""The verbs and their options. Each gathers its inputs, asks the planner, and prints; nothing is decided here."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from gpujob import __version__

if TYPE_CHECKING:
    from gpujob.cli.planning import Plan

app = typer.Typer(
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Output(StrEnum):
    """How a plan or the pools are shown."""

    TABLE = "table"
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"


class ObjectOutput(StrEnum):
    """How objects are shown."""

    YAML = "yaml"
    JSON = "json"


Manifest = Annotated[str, typer.Option("--filename", "-f", metavar="JOB", help="A file with GPUJobs; - reads stdin.")]
ClusterFile = Annotated[
    str | None,
    typer.Option("--cluster", metavar="FILE", help="Kubernetes objects instead of a live cluster; - reads stdin."),
]
CatalogFile = Annotated[
    str | None, typer.Option("--catalog", metavar="FILE", help="A catalog in place of the shipped one.")
]
Kubeconfig = Annotated[str | None, typer.Option(metavar="FILE", help="The kubeconfig, without --cluster.")]
Context = Annotated[str | None, typer.Option(metavar="NAME", help="The kubeconfig's context, without --cluster.")]
Namespace = Annotated[
    str | None, typer.Option("--namespace", "-n", metavar="NAME", help="The namespace of jobs that name none.")
]
Shown = Annotated[Output, typer.Option("--output", "-o", help="How the answer is shown.")]
NoColor = Annotated[bool, typer.Option("--no-color", help="No colours; the variable NO_COLOR does the same.")]


@app.callback(invoke_without_command=True)
def overview(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Where would this GPU job run, why there, and for how much? Decides as the operator does."""
    if version:
        print(f"gpujob {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        print(context.get_help())


@app.command()
def plan(
    filename: Manifest,
    cluster: ClusterFile = None,
    catalog: CatalogFile = None,
    output: Shown = Output.TABLE,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    no_color: NoColor = False,
) -> None:
    """Decide where jobs would run, without touching anything.

    Exit code: 0 Placed, 3 Waiting, 4 Impossible, 5 Misconfigured, 2 bad input; of several jobs the worst.
    """
    plans, _ = _plans(filename, cluster, catalog, namespace, kubeconfig, context)
    from gpujob.cli import planning

    if output in (Output.TABLE, Output.WIDE):
        from gpujob.cli.tables import print_plans

        print_plans(plans, wide=output is Output.WIDE, color=_wants_color(no_color))
    else:
        documents = [planning.document(made) for made in plans]
        _print(documents[0] if len(documents) == 1 else documents, as_json=output is Output.JSON)
    raise typer.Exit(planning.exit_code(plans))


@app.command()
def render(
    filename: Manifest,
    cluster: ClusterFile = None,
    catalog: CatalogFile = None,
    output: Annotated[ObjectOutput, typer.Option("--output", "-o", help="How objects are shown.")] = ObjectOutput.YAML,
    namespace: Namespace = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show the Kubernetes objects that the operator would create for jobs.

    For a job that is not placed there are none: the plan's sentence goes to stderr, with the plan's exit code.
    """
    from gpujob.cli import planning
    from gpujob.cli.children import children_of

    plans, runtime_classes = _plans(filename, cluster, catalog, namespace, kubeconfig, context)
    objects = [child for made in plans for child in children_of(made, runtime_classes)]
    if objects and output is ObjectOutput.JSON:
        _print({"apiVersion": "v1", "kind": "List", "items": objects}, as_json=True)
    elif objects:
        from gpujob.cli.printing import print_yaml

        print_yaml(*objects)
    raise typer.Exit(planning.exit_code(plans))


@app.command()
def pools(
    cluster: ClusterFile = None,
    catalog: CatalogFile = None,
    output: Shown = Output.TABLE,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
    no_color: NoColor = False,
) -> None:
    """Show the GPU pools: what is free, what it costs, and what is wrong or doubtful."""
    from gpujob.cli import sources
    from gpujob.fleet.cluster_file import fleet_of

    objects = sources.read_objects(cluster, kubeconfig, context)
    fleet, _ = fleet_of(objects, sources.read_catalog(catalog))
    if not fleet.pools:
        sources.tell([f"none of {len(objects.nodes)} nodes has GPUs or labels of GPUs"], "no pools")
    if output in (Output.TABLE, Output.WIDE):
        from gpujob.cli.tables import print_pools

        print_pools(fleet, wide=output is Output.WIDE, color=_wants_color(no_color))
    else:
        from gpujob.cli.pools import documents

        _print(documents(fleet), as_json=output is Output.JSON)


@app.command()
def catalog(
    section: Annotated[
        list[str] | None,
        typer.Argument(help="accelerators, runtimes, prices, features, throughputs or speeds; all when absent."),
    ] = None,
    catalog: CatalogFile = None,
    output: Shown = Output.TABLE,
    no_color: NoColor = False,
) -> None:
    """Show what the catalog knows of accelerators, images, prices, features and speeds: each row with source and date."""
    from gpujob.cli import catalog as known
    from gpujob.cli import sources

    rows = sources.read_catalog(catalog)
    if output in (Output.TABLE, Output.WIDE):
        from gpujob.cli.tables import print_sections

        wide = output is Output.WIDE
        tables = {name: found.table(rows, wide=wide) for name, found in known.sections(section or ()).items()}
        print_sections(tables, color=_wants_color(no_color))
    else:
        _print(known.documents(rows, section or ()), as_json=output is Output.JSON)


@app.command()
def capture(
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Where to write; .json writes JSON, - is stdout.")
    ] = "-",
    cluster: Annotated[
        str | None, typer.Option("--cluster", metavar="FILE", help="Redact this description instead of a live cluster.")
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Write the cluster to a file that plans as the cluster does, redacted: only what the planner reads."""
    from gpujob.cli import sources
    from gpujob.cli.capture import redacted, write

    write(redacted(sources.read_raw(cluster, kubeconfig, context, whole=True)), output)


def _plans(
    filename: str,
    cluster: str | None,
    catalog: str | None,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
) -> tuple[list[Plan], frozenset[str]]:
    """The plans of a manifest's jobs, and the RuntimeClasses of the cluster."""
    from gpujob.cli import planning, sources
    from gpujob.errors import BadInput
    from gpujob.fleet.cluster_file import fleet_of

    if filename == cluster == sources.STDIN:
        raise BadInput("-f and --cluster cannot both read stdin; name a file for one of them")
    jobs = sources.read_manifest(filename, namespace)
    objects = sources.read_objects(cluster, kubeconfig, context)
    fleet, known = fleet_of(objects, sources.read_catalog(catalog))
    return planning.plan_jobs(jobs, fleet, known), fleet.runtime_classes


def _print(document: object, *, as_json: bool) -> None:
    from gpujob.cli import printing

    if as_json:
        printing.print_json(document)
    else:
        printing.print_yaml(document)


def _wants_color(no_color: bool) -> bool:
    """Whether colours may be shown; https://no-color.org: any value but the empty one says no."""
    return not no_color and not os.environ.get("NO_COLOR")
