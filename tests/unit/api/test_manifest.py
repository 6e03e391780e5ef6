"""Reading manifests: every problem is one sentence, and nothing hostile raises anything but BadManifest."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpujob.api.kinds.gpujob import CHECKPOINTS, GPUJobSpec
from gpujob.api.manifest import read_gpujob, read_gpupool, read_gpuruntime
from gpujob.values.errors import BadManifest

anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=12,
)
fields = st.sampled_from([info.alias or name for name, info in GPUJobSpec.model_fields.items()])


@given(spec=st.dictionaries(fields, anything, max_size=5) | anything)
@pytest.mark.parametrize("read", [read_gpujob, read_gpupool, read_gpuruntime])
def test_hostile_specs_are_read_or_refused(read: Any, spec: Any) -> None:
    with suppress(BadManifest):
        read({"metadata": {"name": "a"}, "spec": spec})


@given(document=anything)
def test_hostile_documents_are_refused(document: Any) -> None:
    with suppress(BadManifest):
        read_gpujob(document)


def test_a_deep_document_is_refused() -> None:
    spec: Any = {}
    for _ in range(5000):
        spec = {"a": spec}
    with pytest.raises(BadManifest):
        read_gpujob({"spec": spec})


def test_a_bad_name_and_unread_fields_hide_no_other_problem() -> None:
    spec = {
        "comand": ["python"],
        "nodes": "two",
        "framework": {"version": "2.9"},
        "code": {"configMap": {"name": "a"}, "image": {"reference": "b"}},
        "env": [{"name": "A B", "value": "x"}],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    with pytest.raises(BadManifest) as refused:
        read_gpujob({"metadata": {"name": "Bad_Name"}, "spec": spec})
    fields = [line.partition(":")[0] for line in str(refused.value).splitlines()]
    assert fields == [
        "metadata.name", "spec.env[0].name", "spec.nodes", "spec.comand", "spec.volumeMounts[0].name", "spec.code",
        "spec.framework.version",
    ]  # fmt: skip


@pytest.mark.parametrize(("spec", "fields"), [
    # A field at fault hides the rules that read it, and no others of its table.
    ({"gpus": 4, "shapes": [{"gpusPerNode": 2}], "nodes": 2, "gpuMemory": "8G", "model": {"name": "a"}}, ["gpus", "gpuMemory"]),
    ({"foo": 1, "checkpoint": {"volume": "v"}}, ["foo", "checkpoint"]),
    ({"volume": [], "volumeMounts": [{"name": "a", "mountPath": "/a"}]}, ["volume", "volumeMounts[0].name"]),
    ({"volums": [], "volumeMounts": [{"name": "a", "mountPath": "/a"}]}, ["volums"]),
    ({"volumes": [{"name": "A_"}], "volumeMounts": [{"name": "a", "mountPath": "/a"}]}, ["volumes[0].name"]),
    # A table whose unknown field may be the one that a rule misses.
    ({"code": {"foo": 1}}, ["code.foo"]),
    ({"code": {"configmap": {"name": "a"}}}, ["code.configmap"]),
    ({"checkpoint": {"volum": "v", "path": "/a"}}, ["checkpoint.volum"]),
    # The other entries of a list keep their places.
    ({"env": [{"name": "A B"}, {"name": "GPUJOB_NAME", "value": "x"}, {"name": 3}, {"name": "C"}, {"name": "C"}]},
     ["env[0].name", "env[2].name", "env[4]", "env[1].name"]),
    ({"env": [{"name": "GPUJOB_NAME", "valu": "x"}]}, ["env[0].valu", "env[0].name"]),
    ({"shapes": [{"gpus": 2}], "nodes": 2}, ["shapes[0].gpus", "shapes"]),
])  # fmt: skip
def test_a_field_at_fault_hides_only_the_rules_that_read_it(spec: dict[str, Any], fields: list[str]) -> None:
    assert [line.partition(":")[0] for line in refusal({"spec": spec}).splitlines()] == [
        f"spec.{each}" for each in fields
    ]


@pytest.mark.parametrize(("spec", "sentence"), [
    ({"shapes": [{"gpus": 1}]}, "spec.shapes[0].gpus: unknown field; did you mean gpusPerNode?"),
    ({"shapes": [{"workers": 1}]}, "spec.shapes[0].workers: unknown field; did you mean nodes?"),
    ({"shapes": [{"accelerators": ["H100"]}]}, "spec.shapes[0].accelerators: unknown field; did you mean accelerator?"),
    ({"shapes": [{"vram": "8G"}]}, "spec.shapes[0].vram: unknown field; write spec.gpuMemory"),
    ({"shapes": ["2x8"]},
     "spec.shapes[0]: must be a table of keys and values, for example - {nodes: 2, gpusPerNode: 8}, got '2x8'"),
    ({"stall": "Restart"}, "spec.stall: must be a table of keys and values; write stall: {action: Restart}, got 'Restart'"),
    ({"placement": "Cost"}, "spec.placement: must be a table of keys and values; write placement: {objective: Cost}, got 'Cost'"),
    ({"placement": "AMD"}, "spec.placement: must be a table of keys and values; write placement: {vendors: [AMD]}, got 'AMD'"),
    ({"volumes": {"data": {"persistentVolumeClaim": "corpus"}}},
     "spec.volumes: must be a list; begin each entry with a hyphen, for example "
     "- {name: data, persistentVolumeClaim: {claimName: corpus}}, got a table"),
    ({"command": ["a", 0.0001]}, "spec.command[1]: must be a text, got 0.0001; put it in quotes"),
])  # fmt: skip
def test_a_slip_is_answered_with_what_can_be_written_there(spec: dict[str, Any], sentence: str) -> None:
    assert refusal({"spec": spec}) == sentence


def test_labels_in_place_of_a_selector_are_shown_below_match_labels() -> None:
    with pytest.raises(BadManifest) as refused:
        read_gpupool({"metadata": {"name": "a"}, "spec": {"nodeSelector": {"kubernetes.io/hostname": "box6"}}})
    assert str(refused.value) == (
        "spec.nodeSelector.kubernetes.io/hostname: unknown field; labels of nodes and namespaces stand below matchLabels: "
        "write matchLabels: {kubernetes.io/hostname: VALUE}"
    )


def test_a_rule_of_the_table_above_reads_no_table_that_lacks_a_field() -> None:
    with pytest.raises(BadManifest) as refused:
        read_gpupool({"metadata": {"name": "a"}, "spec": {"nodeSelector": {"matchLabels": {"rack": 5}}}})
    assert [line.partition(":")[0] for line in str(refused.value).splitlines()] == [
        "spec.nodeSelector.matchLabels.rack"
    ]
    spec = {
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "w", "emptyDir": {}}],
        "volumeMounts": [{"name": "w", "mountPath": CHECKPOINTS}],
        "checkpoint": {"volume": "v", "path": 5},
    }
    with pytest.raises(BadManifest) as refused:
        read_gpujob({"metadata": {"name": "a"}, "spec": spec})
    assert [line.partition(":")[0] for line in str(refused.value).splitlines()] == ["spec.checkpoint.path"]


def test_a_name_that_is_no_text_is_reported_once() -> None:
    with pytest.raises(BadManifest) as refused:
        read_gpujob({"metadata": {"name": 5, "namespace": 6}, "spec": {"nodes": "2"}})
    fields = [line.partition(":")[0] for line in str(refused.value).splitlines()]
    assert fields == ["metadata.namespace", "metadata.name", "spec.nodes"]


def test_a_manifest_without_a_spec_has_its_bad_name_reported_too() -> None:
    with pytest.raises(BadManifest, match=r"^metadata.name: A is not a name; .*\nspec: is required; "):
        read_gpujob({"metadata": {"name": "A"}})


def test_several_problems_are_told_at_once() -> None:
    with pytest.raises(BadManifest) as refusal:
        read_gpujob({"spec": {"nodes": "two", "gpuMemry": "80G", "placement": {"vendor": "AMD"}}})
    assert set(str(refusal.value).splitlines()) == {
        "spec.nodes: must be a whole number, got 'two'",
        "spec.gpuMemry: unknown field; did you mean gpuMemory?",
        "spec.placement.vendor: unknown field; did you mean vendors?",
    }


def test_a_status_of_another_version_does_no_harm() -> None:
    assert read_gpujob({"metadata": {"name": "a"}, "spec": {}, "status": {"invented": [1]}}).status is None


def test_null_members_are_absent() -> None:
    assert read_gpujob({"spec": {"gpuMemory": None, "placement": {"vendors": None}}}).spec.gpu_memory is None


def test_a_spec_of_more_than_200_kib_is_refused() -> None:
    args = ["x" * 30_000] * 10
    with pytest.raises(BadManifest, match="at most 204800 are taken; put files into a ConfigMap"):
        read_gpujob({"spec": {"args": args}})


def test_a_mount_of_a_volume_that_is_not_there_is_refused() -> None:
    mounts = [{"name": name, "mountPath": f"/{name}"} for name in ("a", "b", "c")]
    spec = {"volumes": [{"name": "b", "emptyDir": {}}], "volumeMounts": mounts}
    assert refusal({"spec": spec}).splitlines() == [
        f"spec.volumeMounts[{at}].name: {name} is not in spec.volumes; add the volume there, or correct the name"
        for at, name in ((0, "a"), (2, "c"))
    ]


def test_each_key_that_breaks_a_rule_is_named() -> None:
    annotations = {"cdi.k8s.io/x": "a", "example.com/ours": "b", "devices.nri.io/x": "c", "": "d"}
    assert [
        line.partition("; ")[0]
        for line in refusal({"spec": {"podMetadata": {"annotations": annotations}}}).splitlines()
    ] == [
        "spec.podMetadata.annotations: cdi.k8s.io/x is a key of the operator or the cluster, as all under gpujob.dev/, "
        "kubernetes.io/ and k8s.io/",
        "spec.podMetadata.annotations: devices.nri.io/x is an annotation by which a node's container runtime assigns devices "
        "(nri.io/, io.kubernetes.cri-o)",
        'spec.podMetadata.annotations: "" is not an annotation key',
    ]


def test_another_kind_and_another_version_are_named_by_their_fields() -> None:
    assert refusal({"apiVersion": "batch/v1", "kind": "Job"}) == (
        "apiVersion: must be gpujob.dev/v1alpha1, got batch/v1\nkind: must be GPUJob, got Job"
    )
    assert refusal({"apiVersion": "gpujob.dev/v1", "kind": "GPUJob", "spec": {}}) == (
        "apiVersion: must be gpujob.dev/v1alpha1, got gpujob.dev/v1"
    )


MISPLACED = {
    "beside an empty spec": ({"command": ["a"], "spec": {}}, "command: unknown field; write spec.command"),
    "without a spec": ({"command": ["a"]}, "command: unknown field; write spec.command"),
    "two of them": ({"nodes": 2, "gpus": 1}, "nodes: unknown field; write spec.nodes\ngpus: unknown field; write spec.gpusPerNode"),
    "in a table of spec": ({"spec": {"resources": {"nodes": 2}}}, "spec.resources.nodes: unknown field; write spec.nodes"),
    "above its table": ({"spec": {"fsGroup": 1}}, "spec.fsGroup: unknown field; write spec.securityContext.fsGroup"),
    "a word of lists": ({"spec": {"subPath": "a"}}, "spec.subPath: unknown field; known here are"),
    "a word of many tables": ({"spec": {"name": "a"}}, "spec.name: unknown field; known here are"),
    "no field at all": ({"colour": 1}, "spec: is required; write at least {}"),
}  # fmt: skip


@pytest.mark.parametrize("case", MISPLACED)
def test_a_field_in_a_wrong_place_points_at_its_own(case: str) -> None:
    document, says = MISPLACED[case]
    assert refusal(document).startswith(says)


def refusal(document: Any) -> str:
    """What read_gpujob says about a document."""
    with pytest.raises(BadManifest) as refused:
        read_gpujob(document)
    return str(refused.value)


@pytest.mark.parametrize("name", ["Train", "a_b", "-a", "a..b", "a" * 254, "a\n", 7, ["a"]])
def test_a_name_that_kubernetes_refuses_is_refused(name: Any) -> None:
    assert refusal({"metadata": {"name": name}, "spec": {}}).startswith("metadata.name: ")


@pytest.mark.parametrize(
    ("namespace", "said"),
    [
        *((each, f"{each} is not a namespace") for each in ("../kube-system", "Bad_NS", "a.b", "-a", "a-")),
        ("a" * 64, f"{'a' * 60} is not a namespace"),
        (["a"], "a list is not a namespace"),
        ({"a": "b"}, "a table is not a namespace"),
    ],
)  # fmt: skip
def test_a_namespace_that_kubernetes_refuses_is_refused(namespace: Any, said: str) -> None:
    end = "; write at most 63 lower-case letters, digits and hyphens"
    expected = f"metadata.namespace: {said}{end}"
    assert refusal({"metadata": {"name": "a", "namespace": namespace}, "spec": {}}) == expected


def test_a_namespace_is_a_text_in_one_line_of_63_characters_or_none() -> None:
    assert refusal({"metadata": {"name": "a", "namespace": 7}, "spec": {}}) == (
        "metadata.namespace: must be a text, got 7; put it in quotes"
    )
    assert "\n" not in refusal({"metadata": {"name": "a", "namespace": "a\n"}, "spec": {}})
    for namespace in ("a", "0", "team-a", "a" * 63, "", None):
        metadata = {"name": "a", "namespace": namespace}
        assert read_gpujob({"metadata": metadata, "spec": {}}).metadata.namespace == namespace


def test_a_missing_spec_is_refused_as_the_api_server_does() -> None:
    remedy = "; write at least {}, for example spec: {command: [python3, train.py]}"
    assert refusal({"metadata": {"name": "a"}}) == f"spec: is required{remedy}"
    assert refusal({"metadata": {"name": "a"}, "spec": None}) == f"spec: is empty{remedy}"


def test_a_misspelt_spec_is_told_from_a_missing_one() -> None:
    assert refusal({"metadata": {"name": "a"}, "specs": {}}) == "specs: unknown field; did you mean spec?"


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        (
            {"command": "python3 train.py --lr 2"},
            "spec.command: must be a list, for example [python3, train.py, --lr, \"2\"], got 'python3 train.py --lr 2'",
        ),
        ({"requires": "BF16"}, "spec.requires: must be a list, for example [BF16], got 'BF16'"),
        ({"command": 3}, "spec.command: must be a list, got 3"),
        (
            {"framework": {"version": 2.1}},
            "spec.framework.version: must be a text, got 2.1 (YAML takes an unquoted 2.10 for 2.1); put it in quotes",
        ),
    ],
)
def test_what_is_no_list_or_text_is_shown_as_one(spec: dict[str, Any], sentence: str) -> None:
    assert refusal({"spec": spec}) == sentence


@pytest.mark.parametrize(("wrong", "end"), [(10, ""), (12, "2 more problems"), (30, "20 more problems")])
def test_ten_problems_are_shown_and_the_others_are_counted(wrong: int, end: str) -> None:
    lines = refusal({"spec": {f"field{number}": 1 for number in range(wrong)}}).splitlines()
    assert [line.partition(":")[0] for line in lines[:10]] == [f"spec.field{number}" for number in range(10)]
    assert lines[10:] == ([f"{end} of this manifest"] if end else [])


def test_a_single_further_problem_is_shown_in_the_line_that_would_count_it() -> None:
    lines = refusal({"spec": {f"field{number}": 1 for number in range(11)}}).splitlines()
    assert [line.partition(":")[0] for line in lines] == [f"spec.field{number}" for number in range(11)]


def test_an_unknown_choice_names_the_known_ones() -> None:
    told = refusal({"spec": {"placement": {"vendors": ["Intel"]}}})
    assert told == "spec.placement.vendors[0]: must be 'AMD' or 'NVIDIA', got 'Intel'"


def test_more_entries_than_the_schema_takes_are_refused() -> None:
    assert refusal({"spec": {"args": ["x"] * 1025}}) == "spec.args: must have at most 1024 entries"


def loop() -> dict[str, Any]:
    """A table that holds itself."""
    endless: dict[str, Any] = {}
    endless["again"] = endless
    return endless


HOSTILE = {
    "endless": loop(),
    "a key that is a pair": {(1, 2): 3},
    "a number of 5000 digits": {"nodes": 10**5000},
    "half a character": {"args": ["\ud800"]},
    "bytes": {"args": [b"x"]},
    "a set": {"args": {"x"}},
    "an object": object(),
    "not a number": {"gpuMemory": float("nan")},
}


@pytest.mark.parametrize("what", HOSTILE)
def test_what_json_cannot_hold_is_refused(what: str) -> None:
    assert refusal({"metadata": {"name": "a"}, "spec": HOSTILE[what]})


def test_whole_numbers_as_keys_are_texts_as_kubectl_makes_them() -> None:
    job = read_gpujob({"spec": {"podMetadata": {"labels": {1: "a"}}}})
    assert job.spec.pod_metadata is not None
    assert job.spec.pod_metadata.labels == {"1": "a"}


@pytest.mark.parametrize(
    ("placement", "sentence"),
    [
        (
            {"accelerators": ["H100", "mi300x"]},
            "accelerators: must say allow or deny; write accelerators: {allow: [H100, mi300x]}, got a list",
        ),
        ({"accelerators": []}, "accelerators: must say allow or deny; write accelerators: {allow: []}, got a list"),
        ({"accelerators": "H100"}, "accelerators: must say allow or deny; write accelerators: {allow: [H100]}, got 'H100'"),
        ({"pools": ["a", "b"]}, "pools: must say allow or deny; write pools: {allow: [a, b]}, got a list"),
        ({"pools": "a"}, "pools: must say allow or deny; write pools: {allow: [a]}, got 'a'"),
    ],
)  # fmt: skip
def test_names_in_place_of_allow_are_told_how_to_write_it(placement: dict[str, Any], sentence: str) -> None:
    document = {
        "apiVersion": "gpujob.dev/v1alpha1",
        "kind": "GPUJob",
        "metadata": {"name": "j"},
        "spec": {"command": ["python"], "placement": placement},
    }
    with pytest.raises(BadManifest) as refusal:
        read_gpujob(document)
    assert f"spec.placement.{sentence}" in str(refusal.value)
