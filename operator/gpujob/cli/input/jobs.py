"""The GPUJobs of a manifest, and the claims beside them: a file or stdin, one document or several, Lists too."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final

from gpujob.values.errors import BadManifest
from gpujob.values.finding import first_lines
from gpujob.values.untrusted import one_line, table
from gpujob.values.vocabulary import GROUP

if TYPE_CHECKING:
    from gpujob.api.kinds.gpujob import GPUJob

CLUSTER_KINDS: Final = frozenset(
    {"Node", "Pod", "GPUPool", "GPURuntime", "RuntimeClass", "ResourceSlice", "ResourceQuota", "GPUJobProfile"}
)
"""Kinds of a cluster description; in a manifest they would be ignored without a message."""

MOST_LINES: Final = 40
"""The most problems of a file with several jobs that are reported at once."""


def read_jobs(
    text: str, namespace: str | None, notes: list[str] | None = None, claims: dict[tuple[str, str], Any] | None = None
) -> list[GPUJob]:
    """The GPUJobs of a manifest, in its order; raises BadManifest. Its PersistentVolumeClaims are added to `claims`, by namespace and
    name; other objects are skipped.

    `namespace` is the default; a job that names another one is rejected, as in kubectl. A sentence for each thing that is read here
    and refused by the API server is added to `notes`.
    """
    notes = [] if notes is None else notes
    from gpujob.fleet.sources.cluster_file import objects_in
    from gpujob.fleet.sources.kubectl_yaml import read_documents

    strange: list[str] = []
    objects = list(objects_in(read_documents(text), strange))
    if strange:
        raise BadManifest(f"{strange[0].removesuffix(' and is left out')}; write apiVersion, kind: GPUJob and spec")
    found = [item for item in objects if _is_job(item)]
    if claims is not None:
        claims.update(_claims(objects, namespace or "default"))
    for number, item in enumerate(found):
        which = "the GPUJob" if len(found) == 1 else f"GPUJob {number + 1} of {len(found)}"
        metadata = table(item, "metadata")
        if not metadata.get("name") and not metadata.get("generateName"):
            notes.append(f"{which} has no metadata.name, without which the API server refuses it; write one")
        found[number] = _with_allowed(item, which, notes)
    jobs = _each_of(found, namespace)
    if not jobs:
        kinds = sorted({one_line(str(item.get("kind"))[:60]) for item in objects})
        there = f"only {', '.join(kinds)}" if kinds else "nothing"
        raise BadManifest(f"it holds no GPUJob ({there}); write apiVersion: {GROUP}/v1alpha1 and kind: GPUJob")
    return jobs


def _claims(objects: Iterable[Mapping[str, Any]], namespace: str) -> Iterator[tuple[tuple[str, str], Any]]:
    """The PersistentVolumeClaims among objects, by namespace and name; `namespace`: of those that name none."""
    for item in objects:
        metadata = table(item, "metadata")
        name, own = metadata.get("name"), metadata.get("namespace")
        if item.get("kind") == "PersistentVolumeClaim" and isinstance(name, str) and name:
            yield (own if isinstance(own, str) and own else namespace, name), item


def _with_allowed(item: Mapping[str, Any], which: str, notes: list[str]) -> Mapping[str, Any]:
    """A job in which a list of names in place of {allow, deny} is the allowed ones; a sentence for each is added to `notes`."""
    from gpujob.api.manifest import ALLOWING, listed

    placement = table(table(item, "spec"), "placement")
    lists = {field: names for field in ALLOWING if isinstance(names := placement.get(field), list)}
    for field, names in lists.items():
        shown = listed(str(name)[:63] for name in names[:16]) + (", …" if len(names) > 16 else "")
        notes.append(
            f"{which} has a list as placement.{field}, which is read as allow and which the API server refuses; "
            f"write {field}: {{allow: [{shown}]}}"
        )
    allowed = {field: {"allow": names} for field, names in lists.items()}
    return {**item, "spec": {**item["spec"], "placement": {**placement, **allowed}}} if lists else item


def last_of_each(jobs: Iterable[GPUJob], notes: list[str]) -> list[GPUJob]:
    """The jobs as a cluster keeps them: of those with one name the last, in its place; a sentence for each name is added to `notes`."""
    kept: dict[Any, GPUJob] = {}
    for number, job in enumerate(jobs):
        namespace, name = job.metadata.namespace, job.metadata.name
        # Jobs that name none are several: nothing says that they are one.
        key = (namespace, name) if "name" in job.metadata.model_fields_set else number
        if kept.pop(key, None) is not None:
            notes.append(f"GPUJob {namespace}/{name} is there twice; the later one replaces the first")
        kept[key] = job
    notes[:] = dict.fromkeys(notes)
    return list(kept.values())


def _is_job(item: Mapping[str, Any]) -> bool:
    """Whether an object is a GPUJob; raises for one with a misspelled kind, or in the wrong file."""
    kind, version = item.get("kind"), str(item.get("apiVersion", ""))
    if kind == "GPUJob":
        return True
    if not isinstance(kind, str):
        raise BadManifest("kind is missing; write kind: GPUJob")
    if kind in CLUSTER_KINDS:
        raise BadManifest(f"kind {kind} describes the cluster; give it with --cluster FILE")
    if version.partition("/")[0] == GROUP or SequenceMatcher(None, kind.lower(), "gpujob").ratio() > 0.8:
        raise BadManifest(f"kind {one_line(kind[:60])} is not known; did you mean GPUJob?")
    return False


def _each_of(found: Sequence[Mapping[str, Any]], namespace: str | None) -> list[GPUJob]:
    """The jobs of a manifest; BadManifest has the problems of all of them, and with several jobs each problem names its job."""
    jobs: list[GPUJob] = []
    wrong: list[str] = []
    for number, item in enumerate(found):
        try:
            jobs.append(_job(item, namespace))
        except BadManifest as error:
            which = f"{_called(number, found)}: " if len(found) > 1 else ""
            wrong += [f"{which}{line}" for line in str(error).splitlines()]
    if wrong:
        raise BadManifest("\n".join(first_lines(wrong, MOST_LINES, "lines of this file")))
    return jobs


def _called(number: int, found: Sequence[Mapping[str, Any]]) -> str:
    """One of several jobs, by its place and its name."""
    name = table(found[number], "metadata").get("name")
    called = f" ({one_line(name[:63])})" if isinstance(name, str) and name else ""
    return f"GPUJob {number + 1} of {len(found)}{called}"


def _job(item: Mapping[str, Any], namespace: str | None) -> GPUJob:
    from gpujob.api.manifest import read_gpujob

    job = read_gpujob(item)
    own = job.metadata.namespace
    if namespace and own and own != namespace:
        raise BadManifest(f"metadata.namespace: is {own}, but -n says {namespace}; leave one of them out")
    metadata = job.metadata.model_copy(update={"namespace": own or namespace or "default"})
    return job.model_copy(update={"metadata": metadata})
