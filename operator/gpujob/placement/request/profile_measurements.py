"""What earlier jobs of a profile measured, and the speed of a device that follows: measured before any prior.

A rate is the weighted median of the last runs; a run's weight halves for every thirty days that it is older than the newest one.
One slow run changes nothing, an upgrade shows after a few runs, and no clock is needed. A GPUJobProfile is hostile input:
unreadable parts count as not measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from gpujob.catalog.devices.throughput import MILLION, Speed
from gpujob.values.errors import BadQuantity
from gpujob.values.quantity import MICRO, parse_dollars
from gpujob.values.untrusted import one_line, table, tables, whole_number

HALF_LIFE: Final = 30 * 86400.0
"""The half-life of a run's weight in seconds, relative to the newest run."""

UNITS: Final = ("tokens", "samples", "steps")
"""The units that jobs count, the most comparable first: a step of another gang may be other work."""

LEAST: Final = 1e-6
"""The slowest credible rate: one unit in eleven days. A lower one divides to nothing."""

MOST: Final = 1e18
MOST_RUNS: Final = 10**9
"""The largest credible numbers of runs and seconds, so that their sums stay within the API's integers."""
MOST_DOLLARS: Final = 10**9 * MICRO


@dataclass(frozen=True, slots=True)
class Run:
    """One job's measurement: units a second of the whole job, its cost in micro-dollars, its end (Unix time)."""

    per_second: float
    ended: float
    job: str = ""
    seconds: int = 0
    dollars: int | None = None


@dataclass(frozen=True, slots=True)
class Measurement:
    """The runs of a profile on one kind of device, in one gang and number format, in one unit."""

    device: str
    accelerator: str
    shape: str
    precision: str
    unit: str
    runs: tuple[Run, ...]
    count: int = 0
    """Runs so far, including those that are no longer stored."""

    @property
    def key(self) -> tuple[str, str, str, str]:
        """The key that distinguishes measurements."""
        return self.device, self.shape, self.precision, self.unit

    @property
    def gpus(self) -> int:
        """GPUs of the gang."""
        nodes, _, gpus = self.shape.partition("x")
        return int(nodes) * int(gpus)

    @property
    def per_second(self) -> float:
        """Units a second of the whole job: the weighted median of the runs."""
        return weighted_median((run.per_second, weight) for run, weight in self._weighed())

    @property
    def dollars(self) -> int | None:
        """The median cost of a run in micro-dollars; None if no price was known."""
        paid = [(float(run.dollars), weight) for run, weight in self._weighed() if run.dollars is not None]
        return round(weighted_median(paid)) if paid else None

    @property
    def last(self) -> str:
        """The day of the newest run."""
        return datetime.fromtimestamp(max(run.ended for run in self.runs), UTC).strftime("%Y-%m-%d")

    def _weighed(self) -> Iterator[tuple[Run, float]]:
        newest = max(run.ended for run in self.runs)
        return ((run, 0.5 ** ((newest - run.ended) / HALF_LIFE)) for run in self.runs)


@dataclass(frozen=True, slots=True)
class Learned:
    """The measurements of a profile in one number format, in the unit that most of its runs counted."""

    profile: str
    """Empty for the job's own probes."""
    measurements: tuple[Measurement, ...]

    def of(self, device: str, shape: str) -> Measurement | None:
        """The measurement of exactly this device and gang."""
        return next((m for m in self.measurements if (m.device, m.shape) == (device, shape)), None)

    def speed(self, device: str, shape: str, prior: Callable[[str], Speed | None]) -> Speed | None:
        """The speed of one GPU of such a gang, on the scale of the priors; None if it was not measured.

        `prior` returns the catalog's speed of an accelerator. One accelerator with a measurement and a prior ties both scales
        together, so that measured and unmeasured devices compare.
        """
        exact = self.of(device, shape)
        found = exact or self._alike(device)
        if found is None:
            return None
        millionths = found.per_second / found.gpus * self._scale(prior)
        if not 1 <= millionths <= MOST:
            return None
        runs = f"{found.count} run" + ("s" if found.count > 1 else "")
        of = f" of profile {self.profile}" if self.profile else ""
        sentence = f"measured {figure(found.per_second)} {found.unit}/s on {runs}"
        source = f"{sentence}{of}" if exact else f"estimate: {sentence}{of} in shape {found.shape}"
        return Speed(
            round(millionths), exact is None, f"{source}, last {found.last}", found.last, sentence if exact else ""
        )

    def _alike(self, device: str) -> Measurement | None:
        """The measurement of the device in another gang, the one with the most runs; not for steps, which differ between gangs."""
        others = [m for m in self.measurements if m.device == device and m.unit != "steps"]
        return min(others, key=lambda m: (-m.count, m.shape), default=None)

    def _scale(self, prior: Callable[[str], Speed | None]) -> float:
        """Millionths of the reference for a unit a second of one GPU, from the accelerator with the most runs."""
        for anchor in sorted(self.measurements, key=lambda m: (-m.count, m.device, m.shape)):
            # The prior is that of a whole device.
            known = prior(anchor.accelerator) if anchor.device == anchor.accelerator else None
            if known is not None:
                return known.millionths / (anchor.per_second / anchor.gpus)
        most = max(self.measurements, key=lambda m: (m.count, m.device, m.shape))
        return MILLION / (most.per_second / most.gpus)


def learned_of(profile: str, measurements: Iterable[Measurement], precision: str) -> Learned | None:
    """What a profile knows about work in a number format; None if nothing."""
    of_work = [m for m in measurements if m.precision == precision and m.per_second > 0]
    if not of_work:
        return None
    runs = {unit: sum(m.count for m in of_work if m.unit == unit) for unit in UNITS}
    unit = max(UNITS, key=lambda word: (runs[word], -UNITS.index(word)))
    return Learned(profile, tuple(sorted((m for m in of_work if m.unit == unit), key=lambda m: m.key)))


class Profile(NamedTuple):
    """A GPUJobProfile: the measurements of its jobs, and what cannot be read of it, in a sentence (empty if all can)."""

    measurements: tuple[Measurement, ...] = ()
    unread: str = ""
    uid: str = ""
    version: str = ""
    """Its resourceVersion; both are empty if the object does not exist."""


def profile_of(raw: Mapping[str, Any]) -> Profile:
    """The profile of a GPUJobProfile object, which every user of its namespace can write."""
    metadata = table(raw, "metadata")
    uid, version = (str(metadata.get(key) or "") for key in ("uid", "resourceVersion"))
    return Profile(read_profile(raw), _unread(raw), uid, version)


def read_profile(raw: Mapping[str, Any]) -> tuple[Measurement, ...]:
    """The measurements of a GPUJobProfile object."""
    return read_measurements(table(raw, "status"))


def _unread(raw: Mapping[str, Any]) -> str:
    """The parts of a GPUJobProfile object that do not count."""
    name, listed = one_line(str(table(raw, "metadata").get("name"))[:253]), table(raw, "status").get("measurements")
    if listed is None:
        return ""
    if not isinstance(listed, list):
        return f"GPUJobProfile {name} cannot be read, so it does not count: its measurements are no list"
    missed = len(listed) - len(read_profile(raw))
    if not missed:
        return ""
    verb = "cannot be read and does not count" if missed == 1 else "cannot be read and do not count"
    return f"of the {len(listed)} measurements of GPUJobProfile {name}, {missed} {verb}"


def read_measurements(raw: Mapping[str, Any]) -> tuple[Measurement, ...]:
    """The measurements of a profile's status."""
    found = (_measurement(entry) for entry in tables(raw, "measurements")[:64])
    return tuple(measurement for measurement in found if measurement is not None)


def _measurement(entry: Mapping[str, Any]) -> Measurement | None:
    words = [entry.get(key) for key in ("device", "accelerator", "shape", "precision", "unit")]
    nodes, _, gpus = str(entry.get("shape")).partition("x")
    runs = tuple(run for each in tables(entry, "runs")[:8] if (run := _run(each)) is not None)
    sized = all(whole_number(number) in range(1, 1025) for number in (nodes, gpus))
    if not runs or not sized or not all(isinstance(word, str) and word for word in words) or words[4] not in UNITS:
        return None
    device, accelerator, shape, precision, unit = map(str, words)
    count = max(min(whole_number(entry.get("count")) or 0, MOST_RUNS), len(runs))
    return Measurement(device, accelerator, shape, precision, unit, runs, count)


def _run(entry: Mapping[str, Any]) -> Run | None:
    try:
        per_second = float(str(entry.get("perSecond"))[:32])
        ended = datetime.strptime(str(entry.get("time")), "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=UTC).timestamp()
        dollars = parse_dollars(str(entry["dollars"]), MOST_DOLLARS) if "dollars" in entry else None
    except (ValueError, BadQuantity, OverflowError):
        return None
    if not LEAST <= per_second <= MOST or ended < 0:
        return None
    seconds = min(whole_number(entry.get("seconds")) or 0, MOST_RUNS)
    return Run(per_second, ended, str(entry.get("job"))[:63], seconds, dollars)


def weighted_median(values: Iterable[tuple[float, float]]) -> float:
    """The value at which half of the weight is reached; between two values if it is exactly half."""
    ordered: Sequence[tuple[float, float]] = sorted(values)
    half, reached = sum(weight for _, weight in ordered) / 2, 0.0
    for index, (value, weight) in enumerate(ordered):
        reached += weight
        if math.isclose(reached, half) and index + 1 < len(ordered):
            return (value + ordered[index + 1][0]) / 2
        if reached >= half:
            return value
    return 0.0


def figure(number: float) -> str:
    """A rate for people: 2,553 or 25.5."""
    return f"{number:,.0f}" if number >= 100 else f"{number:.3g}"
