"""One function for each verb: it gathers the inputs, calls the planner and prints. It decides nothing."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from gpujob.cli.input.request import Request

if TYPE_CHECKING:
    from gpujob.catalog.catalog import Catalog
    from gpujob.cli.planning.planner import Plan
    from gpujob.schedule.pending_job import PendingJob

NOT_ALL_PINNED: Final = 5


def plan(request: Request) -> int:
    """Show where jobs would run; changes nothing.

    Exit code: 0 Placed, 3 Waiting, 4 Impossible, 5 Misconfigured, 2 bad input; with several jobs the worst.
    """
    plans, _, known = _plans(request)
    from gpujob.cli.planning import planner

    if request.html is not None:
        from gpujob.cli.output import page

        page.write(plans, request.html)
    if request.in_tables:
        from gpujob.cli.output.plan_tables import print_plans

        print_plans(plans, wide=request.wide, color=request.color, docs_url=known.docs_url)
    else:
        _print_each([planner.document(made, every=request.all) for made in plans], request)
    return planner.exit_code(plans)


def render(request: Request) -> int:
    """Show the Kubernetes objects that the operator would create for jobs.

    For a job that is not placed it prints the plan's sentence on stderr, with the plan's exit code.
    """
    from gpujob.cli.output.children import children_of
    from gpujob.cli.planning import planner

    plans, runtime_classes, known = _plans(request)
    objects = children_of(plans, runtime_classes, known.mirrors)
    if objects and request.output == "json":
        _print({"apiVersion": "v1", "kind": "List", "items": objects}, request)
    elif objects:
        from gpujob.cli.printing import print_yaml

        print_yaml(*objects)
    return planner.exit_code(plans)


def explain(request: Request) -> int:
    """Explain why a job runs on its pool, why on no other pool, and what would change that.

    It decides again with the current cluster, without the job's own pods. Exit codes as for plan.
    """
    from gpujob.cli.input import sources
    from gpujob.cli.input.site import catalog_for
    from gpujob.cli.planning import explainer, planner
    from gpujob.values.errors import BadInput
    from gpujob.values.untrusted import table

    if (request.name is None) == (request.filename is None):
        raise BadInput("explain needs the NAME of a job in the cluster, or -f JOB with a manifest; give one of the two")
    sources.require_one_reader_of_stdin(request)
    documents, claims = sources.read_raw(request), dict[tuple[str, str], Any]()
    if request.name is not None:
        jobs: list[Mapping[str, Any]] = [sources.read_live_job(request.name, documents, request)]
    else:
        jobs = [job.model_dump(mode="json", by_alias=True, exclude_unset=True)
                for job in sources.read_manifest(request, claims)]  # fmt: skip
    known = catalog_for(request, documents)
    objects = sources.objects_of(documents, request, known, claims)
    if request.filename is not None:
        sources.note_budgets((str(table(job, "metadata").get("namespace")) for job in jobs), objects.namespaces)
    asked = [request.why_not] if request.why_not else []
    now = datetime.now(UTC)
    answers = [
        explainer.explain_job(job, objects, known, asked, documents, now, named=request.name is not None)
        for job in jobs
    ]
    if request.in_tables:
        from gpujob.cli.output.plan_tables import print_explanations

        print_explanations(answers, wide=request.wide, color=request.color, docs_url=known.docs_url)
    else:
        _print_each(explainer.documents(answers, every=request.all), request)
    return planner.exit_code(answer.plan for answer in answers)


def pools(request: Request) -> int:
    """Show the GPU pools: free GPUs, prices, faults and unknown facts."""
    from gpujob.cli.input import sources
    from gpujob.cli.input.site import catalog_for, note_prices_of_nothing
    from gpujob.fleet.pools.arriving import with_arriving
    from gpujob.fleet.sources.cluster_file import fleet_of

    found = sources.read_raw(request)
    known = catalog_for(request, found)
    objects = sources.objects_of(found, request, known)
    fleet, _ = fleet_of(objects, known)
    fleet = with_arriving(fleet, sources.arriving(objects, datetime.now(UTC)))
    note_prices_of_nothing(known, fleet.pools)
    sources.note_no_pools(objects, fleet)
    if request.in_tables:
        from gpujob.cli.output.pool_tables import print_pools

        print_pools(fleet, wide=request.wide, color=request.color, docs_url=known.docs_url)
    else:
        from gpujob.cli.output.pools_json import documents

        _print(documents(fleet), request)
    return 0


def catalog(request: Request) -> int:
    """Show the catalog's accelerators, runtimes (images), prices, features and speeds: each row with source and date.

    The tables show the sources with -o wide.
    """
    from gpujob.cli.input import sources
    from gpujob.cli.verbs import catalog as known

    rows = sources.read_catalog(request.catalog)
    if request.in_tables:
        from gpujob.cli.output.pool_tables import print_sections

        found = known.sections(list(request.sections))
        print_sections({name: each.table(rows, wide=request.wide) for name, each in found.items()}, color=request.color)
    else:
        _print(known.documents(rows, list(request.sections)), request)
    return 0


def reasons(request: Request) -> int:
    """Show the meaning and the remedy of reasons, the words of conditions, events, plan and explain."""
    from gpujob.cli.output.reasons import chosen, document, print_reasons

    found = chosen(request.reasons)
    if request.in_tables:
        print_reasons(found, color=request.color)
    else:
        _print(document(found), request)
    return 0


def pin(request: Request) -> int:
    """Write GPURuntimes that pin the catalog's images to the digests that the registries of your network have now.

    Exit code: 0 all have a digest, 5 some have none, with the reasons on stderr; 2 bad input. Credentials are those of `docker login`.
    """
    import os

    from gpujob.cli.input import sources
    from gpujob.cli.input.site import with_mirrors_of
    from gpujob.cli.printing import say
    from gpujob.cli.registry.client import Client
    from gpujob.cli.registry.credentials import read_logins
    from gpujob.cli.registry.pins import chosen
    from gpujob.cli.registry.pins import pin as pinned

    catalog = with_mirrors_of(request, sources.read_catalog(request.catalog))
    rows = chosen(catalog.runtimes, request.runtimes)
    client = Client(read_logins(os.environ), request.registry_ca)
    found = pinned(rows, catalog.mirrors, client.seen)
    if found.runtimes and request.output == "json":
        _print({"apiVersion": "v1", "kind": "List", "items": list(found.runtimes)}, request)
    elif found.runtimes:
        from gpujob.cli.printing import print_yaml

        print_yaml(*found.runtimes)
    for sentence in found.notes:
        say(f"note: {sentence}")
    for sentence in found.failures:
        say(f"without a digest: {sentence}")
    return NOT_ALL_PINNED if found.failures else 0


def capture(request: Request) -> int:
    """Write the cluster to a file that gives the same plans: only what the planner reads. Names stay, values do not."""
    from gpujob.cli.input import sources
    from gpujob.cli.verbs.capture import redacted, write

    write(redacted(sources.read_raw(request, whole=True)), request.output)
    return 0


def top(request: Request) -> int:
    """Show running jobs live: progress, speed, expected end and cost.

    On a terminal until Ctrl-C, else once. Live speeds need the right to get pods/proxy; without it those of the statuses are shown.
    """
    from gpujob.cli.input.connection import namespace_of
    from gpujob.cli.input.live import LiveCluster
    from gpujob.cli.verbs import top as running

    cluster = LiveCluster(request.kubeconfig, request.context)
    own = request.namespace or namespace_of(request.kubeconfig, request.context)
    found = running.Top(cluster, None if request.all_namespaces else own)
    running.watch(found, running.seconds(request.every), once=request.once, color=request.color)
    return 0


def doctor(request: Request) -> int:
    """Look for faults that keep jobs from the GPUs of a cluster or out of its monitoring; each finding has a remedy.

    Exit code: 0 no Error, 5 an Error, 2 bad input or no answer. Warnings do not change it.
    """
    from gpujob.cli.doctor.checks import BEFORE_UNINSTALL, CHECKS, exit_code, findings
    from gpujob.cli.doctor.gather import gather

    found = findings(gather(request), BEFORE_UNINSTALL if request.before_uninstall else CHECKS)
    if request.in_tables:
        from gpujob.cli.output.findings import print_findings

        print_findings(found, wide=request.wide, color=request.color)
    else:
        from gpujob.cli.output.findings import document

        _print(document(found), request)
    return exit_code(found)


def logs(request: Request) -> int:
    """Show the output of a job's pods; with several pods each line has the pod's number (its node rank).

    A failed attempt keeps its pods, so you can read its output too. kubectl gpujob explain NAME lists the attempts.
    """
    from gpujob.cli.input.live import LiveCluster
    from gpujob.cli.verbs.logs import logs_of

    cluster = LiveCluster(request.kubeconfig, request.context)
    raw = cluster.gpujob(_named(request, "logs"), request.namespace)
    found = logs_of(cluster, raw, request.attempt, request.rank)
    if request.follow:
        found.follow()
    else:
        found.show()
    return 0


def wait(request: Request) -> int:
    """Wait until a job has ended; returns at once if it failed, is Impossible or is Misconfigured.

    Exit code: 0 Succeeded (Running with --for running), 1 Failed, 3 the time is up, 4 Impossible, 5 Misconfigured.
    """
    from gpujob.cli.input.live import LiveCluster
    from gpujob.cli.printing import plain
    from gpujob.cli.verbs.wait import waiting_for

    cluster = LiveCluster(request.kubeconfig, request.context)
    name = _named(request, "wait")
    code, sentence = waiting_for(cluster, name, request.namespace, request.for_, request.timeout).run()
    print(plain(sentence))
    return code


def cost(request: Request) -> int:
    """Show the cost of jobs: dollars and GPU-hours by namespace, profile, pool or job.

    Counts the jobs that exist, from their statuses: each attempt at the price that it was placed at, running ones until now.
    """
    from gpujob.cli.input.live import LiveCluster
    from gpujob.cli.printing import say
    from gpujob.cli.verbs import cost as spent

    now, by = datetime.now(UTC), spent.groups(request.by)
    since = spent.ago(request.since, now)
    found = spent.sums(LiveCluster(request.kubeconfig, request.context).gpujobs(request.namespace), by, since, now)
    if request.output == "csv":
        spent.print_csv(found, by)
    elif request.in_tables:
        from gpujob.cli.output.drawing import console_of, print_table

        headers = (*(word.upper() for word in by), "JOBS", "GPU-HOURS", "COST")
        print_table(console_of(request.color), headers, spent.rows(found))
    else:
        _print(spent.documents(found, by), request)
    for note in filter(None, (spent.unpriced(found), spent.NOTE)):
        say(note)
    return 0


def _named(request: Request, verb: str) -> str:
    from gpujob.values.errors import BadInput

    if request.name is None:
        raise BadInput(f"{verb} needs the NAME of a job in the cluster; `kubectl get gpujobs -A` lists them all")
    return request.name


def _plans(request: Request) -> tuple[list[Plan], Container[str], Catalog]:
    """The plans of a manifest's jobs, the RuntimeClasses of the cluster, and the catalog of the installation."""
    from gpujob.cli.input import sources
    from gpujob.cli.input.site import catalog_for, note_prices_of_nothing
    from gpujob.cli.planning import object_quota, planner
    from gpujob.cli.planning.competing_jobs import rivals_in
    from gpujob.cli.planning.holders import Holdings
    from gpujob.fleet.sources.cluster_file import fleet_of

    sources.require_one_reader_of_stdin(request)
    claims: dict[tuple[str, str], Any] = {}
    jobs = sources.read_manifest(request, claims)
    documents, now = sources.read_raw(request), datetime.now(UTC)
    known = catalog_for(request, documents)
    objects = sources.objects_of(documents, request, known, claims)
    fleet, known = fleet_of(objects, known)
    note_prices_of_nothing(known, fleet.pools)
    sources.note_no_pools(objects, fleet)
    if request.cluster is None:
        sources.note_missing_namespaces(jobs, fleet.namespaces)
    sources.note_budgets((str(job.metadata.namespace) for job in jobs), fleet.namespaces)
    profiles, arriving = planner.profiles_of(objects), sources.arriving(objects, now)

    def rivals(asked: Sequence[PendingJob]) -> Sequence[PendingJob]:
        return rivals_in(documents, asked, fleet, profiles, now)

    held = Holdings(objects, documents, now, known)
    existing = object_quota.gpujobs_in(documents)
    plans = planner.plan_jobs(jobs, fleet, known, profiles, arriving, rivals, held, existing)
    return plans, fleet.runtime_classes, known


def _print_each(documents: list[dict[str, Any]], request: Request) -> None:
    """The document of one job, or a list of several."""
    _print(documents[0] if len(documents) == 1 else documents, request)


def _print(document: object, request: Request) -> None:
    from gpujob.cli import printing

    if request.output == "json":
        printing.print_json(document)
    else:
        printing.print_yaml(document)
