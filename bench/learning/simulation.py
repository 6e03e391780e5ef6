"""Jobs of one profile, one after the other, on pools whose true speeds are known: what is chosen, and what it costs too much.

The path is the operator's own from measurement to decision: a run enters the profile as its object, the profile is read
back, and the next job is decided with it. Runs are noisy, and every tenth is three times too slow.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final

from gpujob.api.manifest import read_gpujob
from gpujob.catalog.catalog import Catalog
from gpujob.catalog.entities import Accelerator
from gpujob.catalog.files.load import load_catalog
from gpujob.fleet.pools.fleet import Fleet
from gpujob.fleet.sources.cluster_file import fleet_of, read_cluster
from gpujob.placement.request.demand import Demand
from gpujob.placement.request.from_manifest import demand_of
from gpujob.placement.request.profile_measurements import learned_of, profile_of, read_profile
from gpujob.schedule.answers import Answer
from gpujob.status.profile import Ran, after_run
from gpujob.values.quantity import MICRO, format_dollars
from gpujob.values.vocabulary import WorkKind

HERE: Final = Path(__file__).parent
NOISE: Final = 0.03
"""Standard deviation of a run's speed."""

TRIAL_HOURS: Final = 1 / 60
"""What a trial takes of its device."""

GAVEL_PRICES: Final = {"K80": 450_000, "P100": 1_460_000, "V100": 2_480_000}
"""Micro-dollars an hour for one GPU on demand, as the authors of Gavel reckon (Google Cloud's list price of its time)."""

SHEETS: Final = {"K80": (4.1, 240.0), "P100": (18.7, 732.0), "V100": (125.0, 900.0)}
"""16-bit TFLOPS and GB/s of one device, by NVIDIA's datasheets; the K80 (half a board) computes in 32 bits."""

START: Final = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class Workload:
    """Work whose true speed on each device is known: units a second of one GPU; prices in micro-dollars an hour."""

    name: str
    speeds: Mapping[str, float]
    prices: Mapping[str, int]
    method: str = ""

    def price_of_work(self, device: str) -> float:
        """What a unit of work costs on a device, in micro-dollars times a constant."""
        return self.prices[device] / self.speeds[device]

    @property
    def best(self) -> str:
        """The device on which the work is cheapest."""
        return min(self.speeds, key=self.price_of_work)

    def is_best(self, device: str) -> bool:
        """Whether a device is the best, or so near to it that noise decides."""
        return self.price_of_work(device) <= 1.05 * self.price_of_work(self.best)

    def dollars(self, device: str) -> int:
        """What a job costs there in micro-dollars: as much work as the best device does in an hour."""
        return round(self.prices[self.best] * self.price_of_work(device) / self.price_of_work(self.best))


def of_gavel() -> list[Workload]:
    """The single-GPU training jobs of Gavel on K80, P100 and V100."""
    lines = [line for line in (HERE / "gavel.csv").read_text().splitlines() if not line.startswith("#")]
    found = []
    for row in csv.DictReader(lines):
        speeds = {device: float(row[device]) for device in GAVEL_PRICES}
        found.append(Workload(f"{row['workload']} {row['batch']}", speeds, GAVEL_PRICES))
    return found


def of_mlperf(catalog: Catalog) -> list[Workload]:
    """The catalog's own benchmarks with at least four devices that have a price, at the cheapest price of each."""
    prices: dict[str, int] = {}
    for price in catalog.prices:
        row = catalog.instance_types.get(price.instance_type)
        if row is not None and price.per_gpu_hour:
            prices[row.accelerator] = min(price.per_gpu_hour, prices.get(row.accelerator, price.per_gpu_hour))
    methods = {WorkKind.TRAINING: "Full", WorkKind.FINE_TUNING: "LoRA", WorkKind.INFERENCE: "Inference"}
    by_benchmark: dict[str, dict[str, float]] = {}
    kinds: dict[str, WorkKind] = {}
    for each in catalog.throughputs:
        if each.accelerator in prices:
            by_benchmark.setdefault(f"{each.benchmark}, {each.devices} GPUs", {})[each.accelerator] = each.per_gpu
            kinds[f"{each.benchmark}, {each.devices} GPUs"] = each.work
    return [
        Workload(name, speeds, {device: prices[device] for device in speeds}, methods[kinds[name]])
        for name, speeds in by_benchmark.items()
        if len(speeds) >= 4
    ]


def gavel_catalog() -> Catalog:
    """The shipped catalog with the three old devices in it, which no current image drives."""
    shipped = load_catalog()
    model = shipped.accelerator("V100-32GB")
    assert model is not None

    def old(name: str) -> Accelerator:
        peak, bandwidth = SHEETS[name]
        return replace(model, id=name, name=name, fp16_tflops=peak, bandwidth_gb_s=bandwidth)

    return replace(shipped, accelerators=(*shipped.accelerators, *map(old, SHEETS)))


def pools_of(workload: Workload, catalog: Catalog) -> Fleet:
    """A pool of one node for each device of a workload, at its price."""
    objects: list[dict[str, Any]] = []
    for device, price in workload.prices.items():
        known = catalog.accelerator(device)
        assert known is not None
        amounts = {"cpu": "64", "memory": "512Gi", "pods": "110", known.vendor.resource: "8"}
        name = device.lower()
        ready = {"allocatable": amounts, "capacity": amounts, "conditions": [{"type": "Ready", "status": "True"}]}
        arch = {"kubernetes.io/arch": known.host_architecture or "amd64", "pool": name}
        objects.append(
            {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": arch}, "status": ready}
        )
        spec = {
            "nodeSelector": {"matchLabels": {"pool": name}},
            "accelerator": device,
            "price": {"perGPUHour": format_dollars(price)},
        }
        objects.append(
            {"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUPool", "metadata": {"name": name}, "spec": spec}
        )
    return fleet_of(read_cluster(objects), catalog)[0]


@dataclass(frozen=True)
class Policy:
    """How the jobs choose: with their profile or without, exploring up to micro-dollars, or probing first."""

    learns: bool = True
    exploration: int | None = None


PRIOR: Final = Policy(learns=False)
GREEDY: Final = Policy()
EXPLORING: Final = Policy(exploration=100 * MICRO)


@dataclass(frozen=True)
class Job:
    """A job that ran: where, and what it cost more than on the best device, in micro-dollars."""

    device: str
    regret: int


def simulated(workload: Workload, catalog: Catalog, policy: Policy, jobs: int, seed: int) -> Iterator[Job]:
    """The jobs of a profile, each decided with what those before it measured."""
    chance, fleet = random.Random(seed), pools_of(workload, catalog)
    profile: dict[str, Any] = {}
    wish = _demand(workload)
    for number in range(jobs):
        held = profile_of(profile)
        learned = learned_of("p", held.measurements, wish.work.precision.value) if policy.learns else None
        answer = Answer(replace(wish, learned=learned, exploration=policy.exploration), fleet, catalog)
        assert answer.pick.choice is not None, answer.pick.verdict
        device = answer.pick.choice.candidate.pool.accelerator_id
        yield Job(device, workload.dollars(device) - workload.dollars(workload.best))
        slow = 3.0 if number % 10 == 4 else 1.0
        speed = workload.speeds[device] * max(0.1, chance.gauss(1, NOISE)) / slow
        ran = Ran(
            f"job-{number}", device, device, "1x1", wish.work.precision.value, {"samples": speed}, 600,
            workload.dollars(device), START + timedelta(hours=number),
        )  # fmt: skip
        profile = after_run("default", "p", held, ran) or profile


def probed(workload: Workload, catalog: Catalog, seed: int) -> Job:
    """A job that probes: a trial on each device, then the run; the trials count in its regret."""
    chance, fleet, wish = random.Random(seed), pools_of(workload, catalog), replace(_demand(workload), probe_steps=50)
    found: dict[str, Any] = {}
    spent = 0
    while True:
        learned = learned_of("", read_profile(found), wish.work.precision.value)
        answer = Answer(replace(wish, learned=learned), fleet, catalog)
        assert answer.pick.choice is not None
        device = answer.pick.choice.candidate.pool.accelerator_id
        if answer.demand.trying is None:
            return Job(device, spent + workload.dollars(device) - workload.dollars(workload.best))
        spent += round(workload.prices[device] * TRIAL_HOURS)
        rates = {"samples": workload.speeds[device] * max(0.1, chance.gauss(1, NOISE))}
        ran = Ran(device, device, device, "1x1", wish.work.precision.value, rates, 600, None, START)
        found = after_run("default", "p", profile_of(found), ran) or found


def _demand(workload: Workload) -> Demand:
    """The demand of a job of one GPU; an own image for both vendors, so that the speed alone decides."""
    spec: dict[str, Any] = {"images": {"cuda": {"image": "own/cuda:1"}, "rocm": {"image": "own/rocm:1"}}}
    spec["placement"] = {"objective": "Value"}
    if workload.method:
        spec["model"] = {"parameters": "100M", "method": workload.method}
        spec["gpusPerNode"] = 1
    return demand_of(
        read_gpujob({"apiVersion": "gpujob.dev/v1alpha1", "kind": "GPUJob", "metadata": {"name": "j"}, "spec": spec})
    )
