"""What scripts read: 0 Placed, 3 Waiting, 4 Impossible, 5 Misconfigured, 2 bad input with one sentence a problem."""

from __future__ import annotations

from pathlib import Path

import pytest
from cli_room import CATALOG, MIXED, ROOT, Command, manifest

from gpujob.cli.input.jobs import MOST_LINES

VERDICTS = {
    "Placed": (0, manifest(gpusPerNode=1)),
    "Waiting": (3, manifest(nodes=2, gpusPerNode=8, gpuMemory="80G")),
    "Impossible": (4, manifest(gpuMemory="500G")),
    "Misconfigured": (5, manifest(requires=["FlashAtention"])),
}


@pytest.mark.parametrize("verdict", VERDICTS)
def test_each_verdict_has_its_exit_code_and_its_sentence_on_stdout(plan: Command, verdict: str) -> None:
    code, job = VERDICTS[verdict]
    answer = plan(job)
    assert (answer.code, answer.err) == (code, "")
    assert answer.out.startswith(f"{verdict}  train: ")


@pytest.mark.parametrize(
    ("order", "worst"),
    [
        (["Placed", "Waiting"], 3),
        (["Waiting", "Impossible", "Placed"], 4),
        (["Misconfigured", "Impossible", "Waiting"], 5),
    ],
)
def test_of_several_jobs_the_worst_counts(plan: Command, order: list[str], worst: int) -> None:
    named = (VERDICTS[verdict][1].replace("name: train", f"name: {verdict.lower()}") for verdict in order)
    assert plan("".join(named)).code == worst


def test_one_unreadable_job_among_others_is_bad_input_and_nothing_is_planned(plan: Command) -> None:
    answer = plan(manifest() + manifest("typo", gpusPerNod=1))
    assert (answer.code, answer.out) == (2, "")


BAD_JOBS = {
    manifest(gpusPerNod=2): "error: -f -: spec.gpusPerNod: unknown field; did you mean gpusPerNode?",
    manifest(placement={"vendor": ["AMD"]}): "error: -f -: spec.placement.vendor: unknown field; did you mean vendors?",
    "a: [1\nb: 2": "error: -f -: is no YAML or JSON: line 2, column 2: did not find expected ',' or ']'",
    "hello": "error: -f -: 'hello' is no Kubernetes object; write apiVersion, kind: GPUJob and spec",
    "": "error: -f -: it holds no GPUJob (nothing); write apiVersion: gpujob.dev/v1alpha1 and kind: GPUJob",
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}": (
        "error: -f -: it holds no GPUJob (only ConfigMap); write apiVersion: gpujob.dev/v1alpha1 and kind: GPUJob"
    ),
    "apiVersion: gpujob.dev/v1alpha1\nkind: GPUjob": "error: -f -: kind GPUjob is not known; did you mean GPUJob?",
    "metadata: {name: x}": "error: -f -: kind is missing; write kind: GPUJob",
    "apiVersion: v1\nkind: Node\nmetadata: {name: n}": (
        "error: -f -: kind Node describes the cluster; give it with --cluster FILE"
    ),
    manifest().replace("name: train", "name: train\n  namespace: a"): (
        "error: -f -: metadata.namespace: is a, but -n says team; leave one of them out"
    ),
}


@pytest.mark.parametrize("job", BAD_JOBS)
def test_a_bad_manifest_is_one_sentence_that_names_field_and_remedy(plan: Command, job: str) -> None:
    answer = plan(job, "-n", "team")
    assert (answer.code, answer.out, answer.err) == (2, "", BAD_JOBS[job] + "\n")


def test_each_problem_of_a_manifest_is_a_sentence_of_its_own(plan: Command) -> None:
    answer = plan(manifest(gpusPerNod=2, gpuMemory=60))
    assert answer.code == 2
    assert all(line.startswith("error: -f -: spec.") for line in answer.err.splitlines())
    assert len(answer.err.splitlines()) == 2


def test_of_several_jobs_the_one_that_is_wrong_is_named(plan: Command) -> None:
    answer = plan(manifest("good") + manifest("bad", comand=["x"]))
    assert answer.code == 2
    assert answer.err == "error: -f -: GPUJob 2 of 2 (bad): spec.comand: unknown field; did you mean command?\n"


def test_every_job_of_a_file_that_is_wrong_is_named_and_lines_beyond_the_most_are_counted(plan: Command) -> None:
    answer = plan(manifest("first", comand=["x"]) + manifest("good") + manifest("Last", nodes=0))
    starts = [line.removeprefix("error: -f -: ").split(": ")[:2] for line in answer.err.splitlines()]
    assert starts == [
        ["GPUJob 1 of 3 (first)", "spec.comand"],
        ["GPUJob 3 of 3 (Last)", "metadata.name"],
        ["GPUJob 3 of 3 (Last)", "spec.nodes"],
    ]
    many = plan("".join(manifest(f"j{number}", comand=["x"]) for number in range(MOST_LINES + 2))).err.splitlines()
    assert len(many) == MOST_LINES + 1
    assert many[-1] == "error: -f -: 2 more lines of this file"


BAD_OPTIONS = {
    ("plan",): "error: option -f JOB is missing; see gpujob plan --help",
    ("plan", "-f"): "error: --filename/-f: expected one argument; see gpujob plan --help",
    ("plan", "-f", "x", "--clustr", "y"): "error: no such option: --clustr; did you mean --cluster?",
    ("plan", "-f", "x", "y"): "error: unexpected argument 'y'; see gpujob plan --help",
    ("plan", "a1.yaml"): "error: unexpected argument 'a1.yaml'; did you mean -f a1.yaml?",
    ("plan", "-f", "x", "a1.yaml"): "error: unexpected argument 'a1.yaml'; see gpujob plan --help",
    ("pools", "a1.yaml"): "error: unexpected argument 'a1.yaml'; see gpujob pools --help",
    ("--verson",): "error: no such option: --verson; did you mean --version?",
    ("pln",): "error: no such command 'pln'; did you mean plan?",
    ("plan", "-f", "x", "-o", "xml"): (
        "error: --output/-o: 'xml' is not one of table, wide, json, yaml; see gpujob plan --help"
    ),
    ("plan", "-f", "-", "--cluster", "-"): (
        "error: -f and --cluster cannot both read stdin; name a file for one of them"
    ),
    ("plan", "-f", "/nowhere.yaml"): (
        "error: -f /nowhere.yaml: no such file or directory; name a file that can be read"
    ),
    ("plan", "-f", "/"): "error: -f /: is a directory; name a file that can be read",
    ("pools", "--cluster", "/dev/null"): (
        "error: --cluster /dev/null: has no Kubernetes objects; `kubectl gpujob capture -o FILE` writes such a file"
    ),
    ("pools", "--cluster", str(MIXED), "--context", "here"): (
        "error: --cluster reads a file, --kubeconfig and --context a live cluster; leave one out"
    ),
    ("pools", "--cluster", str(MIXED), "--catalog", "/dev/null"): (
        "error: --catalog /dev/null: the catalog is empty; write one of the sections accelerators, features, "
        "instanceTypes, runtimes, stacks, prices, throughputs, models, or GPURuntime objects"
    ),
    ("pools", "--cluster", str(ROOT / "examples" / "01-hello-gpu.yaml")): (
        f"error: --cluster {ROOT}/examples/01-hello-gpu.yaml: describes no cluster: it has GPUJob, no Node; "
        "`kubectl gpujob capture` writes one"
    ),
    ("capture", "--cluster", str(MIXED), "-o", "/nowhere/x.yaml"): (
        "error: -o /nowhere/x.yaml: no such file or directory; name a file that can be written"
    ),
}


@pytest.mark.parametrize("arguments", BAD_OPTIONS)
def test_a_bad_option_is_one_sentence_with_the_remedy(gpujob: Command, arguments: tuple[str, ...]) -> None:
    answer = gpujob(*arguments)
    assert (answer.code, answer.out, answer.err) == (2, "", BAD_OPTIONS[arguments] + "\n")


def test_a_file_that_is_no_text_is_bad_input(gpujob: Command, tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(b"kind: \xff\xfe")
    answer = gpujob("plan", "-f", path, "--cluster", MIXED)
    assert (answer.code, answer.err) == (2, f"error: -f {path}: is no text in UTF-8 (byte 6)\n")


def test_without_a_kubeconfig_the_remedy_is_a_captured_file(
    gpujob: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    answer = gpujob("pools", "--catalog", CATALOG)
    assert answer.code == 2
    assert answer.err == (
        f"error: there is no kubeconfig at {tmp_path}/none; name one with --kubeconfig, "
        "or plan with --cluster FILE from an admin's `kubectl gpujob capture -o FILE`\n"
    )


def test_our_own_fault_is_one_sentence_too(plan: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gpujob.schedule.answers.choose", lambda *_: 1 // 0)
    answer = plan(manifest())
    assert (answer.code, answer.out) == (1, "")
    assert answer.err == (
        "error: gpujob failed (ZeroDivisionError: integer division or modulo by zero); "
        "please report it with your files and GPUJOB_TRACEBACK=1\n"
    )
    monkeypatch.setenv("GPUJOB_TRACEBACK", "1")
    with pytest.raises(ZeroDivisionError):
        plan(manifest())


def test_help_and_version_are_answers(gpujob: Command) -> None:
    assert gpujob("--version").out.startswith("gpujob 0.")
    assert gpujob().code == 0
    for verb in ("plan", "render", "capture", "pools"):
        assert verb in gpujob("--help").out
        assert gpujob(verb, "--help").code == 0
