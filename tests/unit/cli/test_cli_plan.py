"""What `plan` shows: the table that people read and the JSON that programs read."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from builders import A100, H100, L4, gpupool, node
from cli_room import MIXED, ROOT, Command, check_golden, manifest

HELLO = ROOT / "examples" / "01-hello-gpu.yaml"
CHOSEN = {
    "pool", "vendor", "accelerator", "nodes", "gpusPerNode", "nodeNames", "image", "runtime", "pricePerHour",
    "priceSource",
}  # fmt: skip
CANDIDATE = {"pool", "runtime", "shape", "outcome", "reasons", "warnings", "pricePerHour"}


@pytest.mark.parametrize(
    ("name", "job", "options"),
    [
        ("placed.txt", manifest(gpusPerNode=2), []),
        ("placed-wide.txt", manifest(gpusPerNode=2), ["-o", "wide"]),
        ("waiting.txt", manifest(nodes=2, gpusPerNode=8, gpuMemory="80G"), []),
        ("impossible.txt", manifest(gpusPerNode=16), []),
        ("misconfigured.txt", manifest(requires=["FlashAtention"]), []),
        ("own-image.txt", manifest(images={"rocm": {"image": "registry.example/mine:1"}}), []),
        (
            "two-jobs.txt",
            manifest("first", gpuMemory="100G", gpusPerNode=8) + manifest("second", gpuMemory="100G", gpusPerNode=8),
            [],
        ),
    ],
)
def test_the_table_is_what_it_was(plan: Command, name: str, job: str, options: list[str]) -> None:
    check_golden(name, plan(job, *options).out)


def test_no_row_is_cut_or_wrapped_and_none_ends_in_blanks_into_a_pipe(plan: Command) -> None:
    lines = plan(manifest(gpusPerNode=2), "-o", "wide").out.splitlines()
    assert max(map(len, lines)) > 120
    assert all(line == line.rstrip() and "…" not in line for line in lines)
    assert not any("\x1b" in line for line in lines)


def test_json_has_the_members_of_the_reference(plan: Command) -> None:
    found = json.loads(plan(manifest(nodes=1, gpusPerNode=2), "-o", "json").out)
    assert {"verdict", "chosen", "candidates", "nearestFix"} <= set(found)
    assert found["verdict"] == "Placed"
    assert set(found["chosen"]) >= CHOSEN
    assert found["chosen"]["nodeNames"] == ["mi210-0"]
    assert (found["chosen"]["nodes"], found["chosen"]["gpusPerNode"]) == (1, 2)
    assert found["chosen"]["pricePerHour"] == "0.90"
    assert found["nearestFix"] is None
    for candidate in found["candidates"]:
        assert set(candidate) >= CANDIDATE
        assert candidate["outcome"] in {"Chosen", "Fits", "Busy", "Misconfigured", "Rejected"}
        assert candidate["shape"] == "1x2"
        assert all(set(finding) == {"reason", "message"} for finding in candidate["reasons"] + candidate["warnings"])


def test_memory_is_shown_by_component_low_expected_and_high(plan: Command) -> None:
    """Of 1.0 GB of weights and 1.2 GB of logits in a step: a loss in eight pieces holds an eighth, weights stay as they are."""
    said = plan(manifest(model={"name": "qwen2.5-0.5b", "method": "LoRA"}, gpusPerNode=1), "-o", "wide").out
    lines = said[said.index("MEMORY OF EACH GPU") :].splitlines()
    assert lines[0].split("  ")[-1].strip() == "HIGH"
    assert [word for word in lines[0].removeprefix("MEMORY OF EACH GPU").split() if word] == [
        "1x1",
        "LOW",
        "EXPECTED",
        "HIGH",
    ]
    rows = {name: cells for name, *cells in (line.split() for line in lines[1:8])}
    assert list(rows) == ["weights", "activations", "logits", "adapters", "overhead", "reserve", "total"]
    assert len(set(rows["weights"])) == 1
    assert bytes_of(rows["logits"][0]) * 8 == pytest.approx(bytes_of(rows["logits"][1]), rel=0.01)
    for column in range(3):
        parts = sum(bytes_of(cells[column]) for name, cells in rows.items() if name != "total")
        assert parts == pytest.approx(bytes_of(rows["total"][column]), abs=6 * 2**30 / 100)


def test_memory_is_one_line_of_a_plan(plan: Command) -> None:
    gangs = [
        {"accelerator": "H100-SXM", "nodes": 1, "gpusPerNode": 1},
        {"accelerator": "L4", "nodes": 1, "gpusPerNode": 4},
    ]
    job = manifest(model={"name": "mistral-7b", "method": "LoRA", "sharding": "FSDP"}, shapes=gangs)
    (line,) = (each for each in plan(job).out.splitlines() if each.startswith("Memory: "))
    found = json.loads(plan(job, "-o", "json").out)["candidates"]
    by_shape = {each["shape"]: each["memory"] for each in found}
    assert list(by_shape) == ["1x1", "1x4"]
    first, other = by_shape.values()
    said = re.fullmatch(
        r"Memory: (\S+) expected on each GPU as 1x1 \((.+)\), at most (\S+); at most (\S+) as 1x4", line
    )
    assert said is not None
    parts = dict(part.split() for part in said[2].split(", "))
    assert next(iter(parts)) == "weights"
    assert list(parts)[-1] == "others"
    sizes = [bytes_of(part) for part in list(parts.values())[:-1]]
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) == 3
    assert sum(map(bytes_of, parts.values())) == pytest.approx(first["expected"], rel=0.01)
    for shown, bytes_ in ((said[1], first["expected"]), (said[3], first["high"]), (said[4], other["high"])):
        assert bytes_of(shown) == pytest.approx(bytes_, rel=0.01)


@pytest.mark.parametrize("example", sorted(ROOT.glob("examples/0*.yaml")), ids=lambda path: path.stem)
def test_the_table_of_a_plan_fits_120_columns(gpujob: Command, example: Path) -> None:
    lines = gpujob("plan", "-f", example, "--cluster", MIXED).out.splitlines()
    assert max(map(len, table_of(lines))) <= 120
    assert lines[2].split("  ")[0] == "POOL"
    assert re.split(r" {2,}", lines[2].strip()) == ["POOL", "GPUS (nodes x each)", "$/H", "OUTCOME", "WHY"]


def table_of(lines: list[str]) -> list[str]:
    """The lines of the table of a plan."""
    first = lines.index("") + 1
    return lines[first : lines.index("", first)]


def pools_in(table: list[str]) -> list[str]:
    """The names in a table whose cells may go on in the next line."""
    column, names = table[0].index("GPUS"), list[str]()
    for line in table[1:]:
        name, starts = line[:column].strip(), line[column : column + 1].strip()
        names = [*names, name] if starts else [*names[:-1], names[-1] + name]
    return names


def test_the_longest_names_fit_too_and_lose_no_letter(plan: Command, tmp_path: Path) -> None:
    cluster = tmp_path / "cluster.yaml"
    name = "a-pool-whose-name-says-who-owns-it-and-where-it-stands-and-" + "x" * 60
    spec = {"nodeSelector": {"matchLabels": {"node.kubernetes.io/instance-type": "g4dn.12xlarge"}}}
    pool = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUPool", "metadata": {"name": name}, "spec": spec}
    cluster.write_text(MIXED.read_text() + "\n---\n" + yaml.safe_dump(pool))
    table = table_of(plan(manifest(gpuMemory="100G", nodes=2), cluster=cluster).out.splitlines())
    assert max(map(len, table)) <= 120
    assert name in pools_in(table)


def with_another_type(path: Path, **labels: str) -> Path:
    """The mixed cluster, in which one of the two MI300X nodes has these labels too."""
    nodes = list(yaml.safe_load_all(MIXED.read_text()))
    found = [each for each in nodes if each["kind"] == "Node" and each["metadata"]["name"] == "mi300x-1"]
    for each in found:
        each["metadata"]["labels"] |= labels
    assert found
    path.write_text(yaml.safe_dump_all(nodes))
    return path


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        ({}, ["mi300x"]),
        (
            {"node.kubernetes.io/instance-type": "Standard_ND96is_flex_MI300X_v5"},
            ["mi300x-standard-nd96is-flex-mi300x-v5", "mi300x-standard-nd96isr-mi300x-v5"],
        ),
        (
            {"kubernetes.azure.com/scalesetpriority": "spot"},
            ["mi300x-standard-nd96isr-mi300x-v5-ondemand", "mi300x-standard-nd96isr-mi300x-v5-spot"],
        ),
    ],
)
def test_a_pool_has_the_shortest_name_that_means_it_alone(
    plan: Command, tmp_path: Path, labels: dict[str, str], names: list[str]
) -> None:
    cluster = with_another_type(tmp_path / "cluster.yaml", **labels)
    job = manifest(placement={"accelerators": {"allow": ["MI300X"]}, "capacityTypes": ["OnDemand", "Spot"]})
    table = table_of(plan(job, cluster=cluster).out.splitlines())
    shown = pools_in(table)
    assert sorted(each for each in shown if each.startswith("mi300x")) == names
    for name in names:
        only = {"pools": {"allow": [name]}, "capacityTypes": ["OnDemand", "Spot"]}
        found = json.loads(plan(manifest(placement=only), "-o", "json", cluster=cluster).out)
        assert found["verdict"] == "Placed"
        assert found["chosen"]["pool"].startswith(name)
        assert [each["outcome"] for each in found["candidates"]].count("Rejected") == len(shown) - 1


def test_a_short_name_means_all_pools_that_it_begins_and_an_admin_s_pool_has_it_to_itself(
    plan: Command, tmp_path: Path
) -> None:
    cluster = with_another_type(tmp_path / "c.yaml", **{"kubernetes.azure.com/scalesetpriority": "spot"})
    job = manifest(placement={"pools": {"allow": ["mi300x"]}, "capacityTypes": ["OnDemand", "Spot"]})

    def fitting() -> list[str]:
        found = json.loads(plan(job, "-o", "json", cluster=cluster).out)
        return sorted(each["pool"] for each in found["candidates"] if each["outcome"] in ("Chosen", "Fits"))

    begun = "mi300x-standard-nd96isr-mi300x-v5"
    assert fitting() == [f"{begun}-ondemand", f"{begun}-spot"]
    spec = {"nodeSelector": {"matchLabels": {"kubernetes.azure.com/scalesetpriority": "spot"}}}
    pool = {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUPool", "metadata": {"name": "mi300x"}, "spec": spec}
    cluster.write_text(cluster.read_text() + "\n---\n" + yaml.safe_dump(pool))
    assert fitting() == ["mi300x"]


def test_json_holds_the_best_candidate_of_each_pool_and_with_all_every_one(gpujob: Command) -> None:
    common = ("plan", "-f", HELLO, "--cluster", MIXED)
    best = json.loads(gpujob(*common, "-o", "json").out)
    every = json.loads(gpujob(*common, "-o", "json", "--all").out)
    assert len({each["pool"] for each in best["candidates"]}) == len(best["candidates"]) == 6
    first = {}
    for each in every.pop("candidates"):
        first.setdefault(each["pool"], each)
    assert best.pop("candidates") == list(first.values())
    assert best == every
    shown = yaml.safe_load(gpujob(*common, "-o", "yaml", "--all").out)
    assert len(shown["candidates"]) > 50
    explained = json.loads(gpujob("explain", "-f", HELLO, "--cluster", MIXED, "-o", "json").out)
    assert len(explained["candidates"]) == 6


def test_what_is_wrong_with_the_job_itself_is_said_once(plan: Command) -> None:
    out = plan(manifest(requires=["FlashAtention"], framework={"name": "pytorc"})).out
    assert out.count("FlashAtention is no known feature") == 1
    assert out.count("pytorc is no known framework") == 1
    wide = plan(manifest(gpuMemory="500G"), "-o", "wide").out
    assert wide.count("no command is given") == 1, "what is uncertain on every pool is so of the job"


def test_a_row_with_a_reason_of_its_own_names_the_sentence_s_reason_too(plan: Command) -> None:
    lines = plan(manifest(gpuMemory="80Gi", gpusPerNode=16, placement={"capacityTypes": ["Spot"]})).out.splitlines()
    assert "its nodes are OnDemand; placement.capacityTypes accepts Spot" in lines[0]
    rows = [line for line in table_of(lines) if not line.startswith(" ")][1:]
    assert len(rows) > 3
    assert all("Rejected  as above; needs " in row for row in rows), rows


FOREIGN = "requires OpenSourceStack, which CUDA images never have"


@pytest.mark.parametrize(
    ("job", "first", "further"),
    [
        ({"requires": ["FP8FNUZ", "OpenSourceStack"]}, "as above; requires FP8FNUZ, which ", [FOREIGN]),
        ({"requires": ["OpenSourceStack"], "placement": {"vendors": ["AMD"]}}, "the reasons above", [FOREIGN]),
        (
            {"requires": ["OpenSourceStack"], "placement": {"vendors": ["AMD"], "capacityTypes": ["Spot"]}},
            "the reasons above",
            ["its nodes are OnDemand; placement.capacityTypes accepts Spot", FOREIGN],
        ),
        ({"placement": {"vendors": ["AMD"]}}, "the reason above", []),
    ],
)
def test_a_reason_of_every_pool_that_the_sentence_lacks_is_said_once(
    gpujob: Command, tmp_path: Path, job: dict[str, Any], first: str, further: list[str]
) -> None:
    """Below the sentence in tables, and on the page."""
    cluster, page = tmp_path / "cluster.yaml", tmp_path / "plan.html"
    cluster.write_text(yaml.safe_dump_all([node("a", H100), node("b", L4, 4), node("c", A100)]))
    lines = gpujob("plan", "-f", "-", "--cluster", cluster, "--html", page, stdin=manifest(**job)).out.splitlines()
    assert lines[1] == (f"On every pool: {'; '.join(further)}" if further else "")
    rows = [line for line in table_of(lines) if not line.startswith(" ")][1:]
    assert len(rows) == 3
    assert all(f"Rejected  {first}" in row for row in rows), rows
    text = page.read_text(encoding="utf-8")
    for each in (*further, "placement.vendors names only AMD" if job.get("placement") else FOREIGN):
        assert (text.count(each), "\n".join(lines).count(each)) == (1, 1), each


def test_images_that_fail_for_one_reason_take_one_line(gpujob: Command, tmp_path: Path) -> None:
    newer = manifest(framework={"name": "pytorch", "version": ">=2.13"}, requires=["BF16"])
    (tmp_path / "job.yaml").write_text(newer, encoding="utf-8")
    lines = gpujob("plan", "-f", tmp_path / "job.yaml", "--cluster", MIXED, "-o", "wide").out.splitlines()
    refused = [re.fullmatch(r"  not    \d+ images? \((\w+)\): .+", line) for line in lines if line.startswith("  not ")]
    assert all(refused)
    start = lines.index("mi210-ondemand 1x1  Chosen")
    reasons = [found[1] for line, found in zip((x for x in lines if x.startswith("  not ")), refused, strict=True)
               if found and start < lines.index(line) < lines.index("", start)]  # fmt: skip
    assert len(reasons) == len(set(reasons)) == 2


def bytes_of(cell: str) -> float:
    """Bytes of a size as a table shows it."""
    return float(cell.rstrip("GMi")) * {"Gi": 2**30, "Mi": 2**20}.get(cell[-2:], 1)


def test_json_of_an_impossible_job_has_null_for_the_choice_and_the_nearest_fix(plan: Command) -> None:
    found = json.loads(plan(manifest(gpusPerNode=16), "-o", "json").out)
    assert found["chosen"] is None
    assert found["nearestFix"]["change"] == {"field": "spec.gpusPerNode", "from": 16, "to": 8}
    assert set(found["nearestFix"]) == {"message", "change"}


def test_yaml_says_the_same_as_json(plan: Command) -> None:
    job = manifest(gpusPerNode=16)
    assert yaml.safe_load(plan(job, "-o", "yaml").out) == json.loads(plan(job, "-o", "json").out)


def test_jobs_of_one_file_are_planned_in_order_and_take_from_each_other(plan: Command) -> None:
    whole_node = {"gpusPerNode": 8, "gpuMemory": "100G"}
    found = json.loads(plan(manifest("b", **whole_node) + manifest("a", **whole_node), "-o", "json").out)
    assert [one["verdict"] for one in found] == ["Placed", "Waiting"]


def test_a_suspended_job_takes_nothing_from_those_after_it(plan: Command) -> None:
    whole_node = {"gpusPerNode": 8, "gpuMemory": "100G"}
    found = json.loads(plan(manifest(suspend=True, **whole_node) + manifest("after", **whole_node), "-o", "json").out)
    assert [one["verdict"] for one in found] == ["Placed", "Placed"]


def test_a_list_of_jobs_and_what_comes_with_them_are_taken(plan: Command) -> None:
    jobs = [yaml.safe_load(manifest(name)) for name in ("one", "two")]
    code = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "code"}}
    answer = plan(json.dumps({"apiVersion": "v1", "kind": "List", "items": [code, *jobs]}))
    assert answer.code == 0
    assert [line.split()[1] for line in answer.out.splitlines() if line.startswith("Placed")] == ["one:", "two:"]


def test_the_cluster_can_come_from_stdin(gpujob: Command, tmp_path: Path) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(manifest())
    assert gpujob("plan", "-f", job, "--cluster", "-", stdin=MIXED.read_text()).code == 0


def test_names_from_a_file_cannot_steer_a_terminal(plan: Command, tmp_path: Path) -> None:
    answer = plan(manifest("evil\x1b[31m\u202e [red]name"))
    assert "\x1b" not in answer.out + answer.err
    assert "\u202e" not in answer.out + answer.err


def test_what_cannot_be_read_is_said_and_stops_nothing(plan: Command, tmp_path: Path) -> None:
    broken = tmp_path / "cluster.yaml"
    broken.write_text(
        MIXED.read_text() + "---\nkind: Node\nmetadata: 7\n---\nkind: Pod\nmetadata: {name: [p]}\n"
        "---\napiVersion: gpujob.dev/v1alpha1\nkind: GPUPool\nmetadata: {name: mine}\nspec: {nodeSelectr: {}}\n"
    )
    answer = plan(manifest(), cluster=broken)
    assert answer.code == 0
    assert answer.err.splitlines()[0] == "not read: a Node without metadata.name is left out"
    assert len(answer.err.splitlines()) == 3
    assert "not read: GPUPool mine cannot be read, so nothing runs on its nodes: spec." in answer.err


def test_the_error_of_a_gpupool_stands_once_in_the_plan(plan: Command, tmp_path: Path) -> None:
    said = 'spec.price: must be a table of keys and values, for example price: {perGPUHour: "1.20"}, got 1'
    after = "Why not mine: it can be decided about once GPUPool mine can be read"
    labelled = [node("a", H100, labels={"pool": "x"}), gpupool("mine", {"pool": "x"}, price=1)]
    for objects, above, why in ((labelled, True, False), ([*labelled, node("l", L4)], False, True)):
        cluster = tmp_path / f"{len(objects)}.yaml"
        cluster.write_text(yaml.safe_dump_all(objects))
        answer = plan(manifest(), cluster=cluster)
        text = " ".join(answer.out.split())
        assert text.count(said) == 1
        assert (said in answer.out.partition("\nPOOL")[0]) is above
        assert ("the reason above" in text) is above
        assert (after in text) is why


def test_many_unreadable_objects_are_counted(plan: Command, tmp_path: Path) -> None:
    broken = tmp_path / "cluster.yaml"
    broken.write_text(MIXED.read_text() + "---\nkind: Node\n" * 20)
    assert plan(manifest(), cluster=broken).err.splitlines()[-1] == "not read: 15 more"


def test_of_jobs_of_one_name_the_last_is_planned_and_rendered(plan: Command, gpujob: Command) -> None:
    one, two, four = (manifest("same", gpusPerNode=number) for number in (1, 2, 4))
    text = one + manifest("between", gpusPerNode=8) + two + four
    told = "-f -: GPUJob default/same is there twice; the later one replaces the first\n"
    answer = plan(text, "-o", "yaml")
    assert answer.err == told
    assert [each["chosen"]["gpusPerNode"] for each in yaml.safe_load(answer.out)] == [8, 4]
    rendered = gpujob("render", "-f", "-", "--cluster", MIXED, stdin=one + two)
    assert told in rendered.err
    (job,) = [each for each in yaml.safe_load_all(rendered.out) if each["kind"] == "Job"]
    (limits,) = [each["resources"]["limits"] for each in job["spec"]["template"]["spec"]["containers"]]
    assert [count for name, count in limits.items() if name.endswith("/gpu")] == ["2"]


def test_jobs_of_one_name_in_two_namespaces_and_jobs_without_a_name_are_several(plan: Command) -> None:
    elsewhere = manifest("same").replace("name: same", "name: same\n  namespace: team")
    unnamed, generated = (manifest("x").replace("name: x", each) for each in ("labels: {}", "generateName: x-"))
    told = "-f -: GPUJob {} of 2 has no metadata.name, without which the API server refuses it; write one\n"
    for text, err in (
        (manifest("same") + elsewhere, ""),
        (generated * 2, ""),
        (unnamed * 2, told.format(1) + told.format(2)),
        (manifest("same") + unnamed, told.format(2)),
    ):
        answer = plan(text, "-o", "yaml")
        assert (answer.err, len(yaml.safe_load(answer.out))) == (err, 2)


@pytest.mark.parametrize(
    ("field", "names", "refusal"),
    [
        ("accelerators", ["h100"], None),
        ("accelerators", ["MI300"], None),
        ("pools", ["h100-sxm-ondemand"], None),
        ("accelerators", [], None),
        ("accelerators", ["a100", "4090"], None),
        ("accelerators", ["h100", 1], "spec.placement.accelerators.allow[1]: must be a text, got 1; put it in quotes"),
        ("pools", "h100", "spec.placement.pools: must say allow or deny; write pools: {allow: [h100]}, got 'h100'"),
    ],
)
def test_a_list_of_names_is_planned_as_allow_with_what_to_write(
    plan: Command, field: str, names: list[object] | str, refusal: str | None
) -> None:
    short, whole = (plan(manifest(placement={field: each}), "-o", "yaml") for each in (names, {"allow": names}))
    if refusal is not None:
        assert (short.code, short.out, short.err) == (2, "", f"error: -f -: {refusal}\n")
        return
    assert (short.code, short.out, whole.err) == (whole.code, whole.out, "")
    assert short.err == (
        f"-f -: the GPUJob has a list as placement.{field}, which is read as allow and which the API server refuses; "
        f"write {field}: {{allow: [{', '.join(map(str, names)).replace('4090', json.dumps('4090'))}]}}\n"
    )


@pytest.mark.parametrize("flag", ["-n", "--operator-namespace"])
def test_an_empty_namespace_is_refused(plan: Command, flag: str) -> None:
    answer = plan(manifest("a"), flag, "")
    assert answer.code == 2
    named = "-n" if flag == "-n" else flag
    assert answer.err == f"error: {named}: is empty; name a namespace, or leave {named} out\n"


def test_the_wide_plan_of_the_shipped_catalog_can_be_read(gpujob: Command) -> None:
    wide = gpujob("plan", "-f", HELLO, "--cluster", MIXED, "-o", "wide").out.splitlines()
    table = wide[2 : wide.index("", 2)]
    assert len(table) == 1 + 6, "one line for each pool"
    assert max(map(len, table)) <= 145
    assert len(wide) < 80
    asked = ("plan", "-f", HELLO, "--cluster", MIXED, "-o", "json", "--all")
    everything = json.loads(gpujob(*asked).out)["candidates"]
    tried = [row.split()[-1] for row in table[1:]]
    assert sum(int(row.partition("/")[2]) for row in tried) == len(everything), (
        "--all holds each, the table counts each"
    )


def test_a_plan_says_images_as_they_can_be_pulled(plan: Command) -> None:
    digest = "@sha256:" + "0" * 64
    for image, shown in (
        ("nvcr.io/nvidia/pytorch:26.09-py3", "nvcr.io/nvidia/pytorch:26.09-py3"),
        (f"localhost:5000/a:1{digest}", "localhost:5000/a:1"),
        (f"localhost:5000/a{digest}", f"localhost:5000/a{digest}"),
    ):
        lines = plan(manifest(images={"cuda": {"image": image}})).out.splitlines()
        assert f"Image: {shown}" in lines


def test_a_host_that_is_started_shows_both_of_its_prices(gpujob: Command) -> None:
    case = ROOT / "tests" / "cases" / "a-host-that-is-started-for-one-gpu-is-paid-whole"
    shown = gpujob("explain", "-f", case / "job.yaml", "--cluster", case / "cluster.yaml", "-o", "wide").out
    both = "$12.00 an hour for hosts that are started for this job, its GPUs alone $1.50"
    assert f"  price  {both}; GPUPool spec.price.perNodeHour / 8 GPUs" in shown
    assert "Price:" not in shown  # The chosen host has one GPU, so that the two are the same.


def test_a_gpuruntime_that_extends_no_row_is_told(plan: Command, tmp_path: Path) -> None:
    own = {
        "apiVersion": "gpujob.dev/v1alpha1",
        "kind": "GPURuntime",
        "metadata": {"name": "x"},
        "spec": {"extends": "zz"},
    }
    (cluster := tmp_path / "c.yaml").write_text(MIXED.read_text() + "---\n" + json.dumps(own))
    said = "not read: GPURuntime x cannot be read, so it is not used: extends: there is no row zz in the catalog"
    assert plan(manifest(gpusPerNode=1), cluster=cluster).err.count(said) == 1


@pytest.mark.parametrize("verb", ["plan", "render"])
@pytest.mark.parametrize("option", ["-n", "--operator-namespace"])
@pytest.mark.parametrize("name", ["../kube-system", "Bad_NS", "a.b", "a" * 61 + "-"])
def test_an_option_that_names_no_namespace_is_refused(gpujob: Command, verb: str, option: str, name: str) -> None:
    answer = gpujob(verb, "-f", "-", "--cluster", MIXED, option, name, stdin=manifest(gpusPerNode=1))
    end = "is not a namespace; write at most 63 lower-case letters, digits and hyphens"
    assert (answer.code, answer.out) == (2, "")
    assert answer.err == f"error: {option}: {name[:60]} {end}\n"
