"""What jobs do for what they cost, and the same by profile: AMD beside NVIDIA on the same work.

The operator's counters go with the job, so sums are of jobs that exist. A price that is unknown or 0 makes no ratio: it is
absent, never endless.
"""

from __future__ import annotations

from typing import Final

from monitoring.rules.rule import Group, Record


def _rate(counter: str) -> str:
    return f"sum by (namespace, job) (rate({counter}[5m]))"


def _by_profile(series: str) -> str:
    """A series of jobs summed over those that run, which name a profile, by profile and device."""
    labels = "profile, vendor, accelerator"
    info = f'max by (namespace, job, {labels}) (gpujob_job_info{{profile!="", state="Running"}})'
    return f"sum by ({labels}) (\n  {series}\n  * on (namespace, job) group_left ({labels})\n  {info}\n)\n"


JOBS: Final = Group(
    "gpujob-jobs",
    [
        Record("gpujob:job_cost:dollars_per_hour", f"{_rate('gpujob_job_cost_dollars_total')} * 3600"),
        Record("gpujob:job_tokens:rate5m", _rate("gpujob_job_tokens_total")),
        Record("gpujob:job_samples:rate5m", _rate("gpujob_job_samples_total")),
        Record("gpujob:job_steps:rate5m", _rate("gpujob_job_steps_total")),
        Record(
            "gpujob:job_tokens_per_dollar:ratio",
            "(gpujob:job_tokens:rate5m > 0) * 3600 / (gpujob:job_cost:dollars_per_hour > 0)",
        ),
        Record("gpujob:profile_gpus:sum", _by_profile("max by (namespace, job) (gpujob_job_gpus)")),
        Record("gpujob:profile_tokens:rate5m", _by_profile("gpujob:job_tokens:rate5m")),
        Record("gpujob:profile_samples:rate5m", _by_profile("gpujob:job_samples:rate5m")),
        Record("gpujob:profile_cost:dollars_per_hour", _by_profile("gpujob:job_cost:dollars_per_hour")),
        Record("gpujob:profile_power:watts", _by_profile("sum by (namespace, job) (gpujob:device_power:watts)")),
        Record(
            "gpujob:profile_tokens_per_dollar:ratio",
            "(gpujob:profile_tokens:rate5m > 0) * 3600 / (gpujob:profile_cost:dollars_per_hour > 0)",
        ),
    ],
)
