"""AMD against NVIDIA: the same work, by profile, on different devices."""

from __future__ import annotations

from typing import Final

from monitoring.dashboards.panels import Column, Query, Row, dashboard, graph, stat, table, variable

THESE: Final = 'profile=~"$profile"'
NAMED: Final = "{{profile}} on {{accelerator}}"
TOKENS: Final = f"gpujob:profile_tokens:rate5m{{{THESE}}}"
SAMPLES: Final = f"gpujob:profile_samples:rate5m{{{THESE}}}"
GPUS: Final = f"gpujob:profile_gpus:sum{{{THESE}}}"
COST: Final = f"gpujob:profile_cost:dollars_per_hour{{{THESE}}}"
PER_DOLLAR: Final = f"gpujob:profile_tokens_per_dollar:ratio{{{THESE}}}"
PER_MILLION: Final = f"{COST} / ({TOKENS} > 0) / 3600 * 1e6"
ENERGY: Final = f"gpujob:profile_power:watts{{{THESE}}} / ({TOKENS} > 0)"


def _ratio(figure: str) -> str:
    """AMD's best over NVIDIA's best, of profiles that run on both."""
    best = {
        vendor: f"max by (profile) ({figure.replace(THESE, f'{THESE}, vendor={vendor!r}')})"
        for vendor in ("AMD", "NVIDIA")
    }
    return f"{best['AMD']} / {best['NVIDIA']}".replace("'", '"')


VENDORS: Final = dashboard(
    "gpujob-vendors",
    "GPUJob / AMD against NVIDIA",
    "Running jobs of one profile, which do the same work: speed of a GPU of each kind, and tokens per dollar.",
    [variable("profile", "Profile", "label_values(gpujob:profile_gpus:sum, profile)")],
    [
        Row(
            "Side by side",
            [
                stat(
                    "AMD : NVIDIA, tokens per GPU",
                    "Above 1: a GPU of AMD's best pool does more of this work than one of NVIDIA's best.",
                    _ratio(f"({TOKENS} / {GPUS})"),
                    "none",
                    width=6,
                ),
                stat(
                    "AMD : NVIDIA, tokens per dollar",
                    "Above 1: a dollar buys more of this work on AMD.",
                    _ratio(PER_DOLLAR),
                    "none",
                    width=6,
                ),
                stat(
                    "Cheapest million tokens",
                    "On the best of the devices that run this work now.",
                    f"min({PER_MILLION})",
                    "currencyUSD",
                    width=6,
                ),
                stat("GPUs compared", "Devices of running jobs that name a profile.", f"sum({GPUS})", "short", width=6),
                table(
                    "By profile and device",
                    "Current figures. Without a price there are no dollars; without samples or tokens no speed.",
                    ["profile", "vendor", "accelerator"],
                    [
                        Column("GPUs", GPUS, "short"),
                        Column("tokens/s per GPU", f"{TOKENS} / {GPUS}", "short"),
                        Column("tokens per $", PER_DOLLAR, "short"),
                        Column("$ per million tokens", PER_MILLION, "currencyUSD"),
                        Column("samples/s per GPU", f"{SAMPLES} / {GPUS}", "short"),
                        Column("joules per token", ENERGY, "joule"),
                    ],
                    height=6,
                ),
            ],
        ),
        Row(
            "Over time",
            [
                graph("Tokens a second per GPU", "Speed of one device.", [Query(f"{TOKENS} / {GPUS}", NAMED)], "short"),
                graph("Tokens per dollar", "Tokens for one dollar.", [Query(PER_DOLLAR, NAMED)], "short"),
                graph(
                    "Cost of a million tokens",
                    "Dollars for a million tokens.",
                    [Query(PER_MILLION, NAMED)],
                    "currencyUSD",
                ),
                graph(
                    "Samples a second per GPU",
                    "For work without tokens.",
                    [Query(f"{SAMPLES} / {GPUS}", NAMED)],
                    "short",
                ),
                graph(
                    "Joules per token",
                    "Power of the devices divided by their tokens; for jobs on whole devices with a vendor's exporter.",
                    [Query(ENERGY, NAMED)],
                    "joule",
                ),
                graph("GPUs", "Devices of running jobs.", [Query(GPUS, NAMED)], "short", stacked=True),
            ],
        ),
    ],
)
