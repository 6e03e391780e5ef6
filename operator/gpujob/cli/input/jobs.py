"""The GPUJobs of a manifest: a file or stdin, one document or several, Lists too."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING, Any, Final

from gpujob.values.errors import BadManifest
from gpujob.values.untrusted import one_line, table
from gpujob.values.vocabulary import GROUP

if TYPE_CHECKING:
    from gpujob.api.kinds.gpujob import GPUJob

CLUSTER_KINDS: Final = frozenset(
    {"Node", "Pod", "GPUPool", "GPURuntime", "RuntimeClass", "ResourceSlice", "ResourceQuota", "GPUJobProfile"}
)
"""Kinds of a cluster description; in a manifest they would be ignored without a message."""


def read_jobs(text: str, namespace: str | None, told: list[str] | None = None) -> list[GPUJob]:
    """The GPUJobs of a manifest, in its order; raises BadManifest. Other objects are skipped.

    `namespace` is the default; a job that names another one is rejected, as in kubectl. A sentence for each job without a name is
    added to `told`.
    """
    from gpujob.fleet.sources.cluster_file import objects_in
    from gpujob.fleet.sources.kubectl_yaml import read_documents

    strange: list[str] = []
    objects = list(objects_in(read_documents(text), strange))
    if strange:
        raise BadManifest(f"{strange[0].removesuffix(' and is left out')}; write apiVersion, kind: GPUJob and spec")
    found = [item for item in objects if _is_job(item)]
    jobs = [_one_of(found, number, namespace) for number in range(len(found))]
    for number, item in enumerate(found if told is not None else ()):
        metadata = table(item, "metadata")
        if told is not None and not metadata.get("name") and not metadata.get("generateName"):
            which = "the GPUJob" if len(found) == 1 else f"GPUJob {number + 1} of {len(found)}"
            told.append(f"{which} has no metadata.name, without which the API server refuses it; write one")
    if not jobs:
        kinds = sorted({one_line(str(item.get("kind"))[:60]) for item in objects})
        there = f"only {', '.join(kinds)}" if kinds else "nothing"
        raise BadManifest(f"it holds no GPUJob ({there}); write apiVersion: {GROUP}/v1alpha1 and kind: GPUJob")
    return jobs


def last_of_each(jobs: Iterable[GPUJob], told: list[str]) -> list[GPUJob]:
    """The jobs as a cluster keeps them: of those with one name the last, in its place; a sentence for each name is added to `told`."""
    kept: dict[Any, GPUJob] = {}
    for number, job in enumerate(jobs):
        namespace, name = job.metadata.namespace, job.metadata.name
        # Jobs that name none are several: nothing says that they are one.
        key = (namespace, name) if "name" in job.metadata.model_fields_set else number
        if kept.pop(key, None) is not None:
            told.append(f"GPUJob {namespace}/{name} is there twice; the later one replaces the first")
        kept[key] = job
    told[:] = dict.fromkeys(told)
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


def _one_of(found: Sequence[Mapping[str, Any]], number: int, namespace: str | None) -> GPUJob:
    """One of the jobs of a manifest; with several, the error names it."""
    try:
        return _job(found[number], namespace)
    except BadManifest as error:
        if len(found) == 1:
            raise
        name = table(found[number], "metadata").get("name")
        called = f" ({one_line(name[:63])})" if isinstance(name, str) and name else ""
        which = f"GPUJob {number + 1} of {len(found)}{called}"
        raise BadManifest("\n".join(f"{which}: {line}" for line in str(error).splitlines())) from error


def _job(item: Mapping[str, Any], namespace: str | None) -> GPUJob:
    from gpujob.api.manifest import read_gpujob

    job = read_gpujob(item)
    own = job.metadata.namespace
    if namespace and own and own != namespace:
        raise BadManifest(f"metadata.namespace: is {own}, but -n says {namespace}; leave one of them out")
    metadata = job.metadata.model_copy(update={"namespace": own or namespace or "default"})
    return job.model_copy(update={"metadata": metadata})
