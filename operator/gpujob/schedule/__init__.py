"""Many jobs at once: the order of the queue, and one snapshot in which each placed job reserves its devices.

Reading order: `pending_job` (a job of the queue), `policies` (the rules, by name), `queue` (the cycle), `answers` (the result of a
demand, kept between cycles), `shares` (the time of each namespace), `quota_ledger` (what reservations leave of quotas), `gains`
(whether a demand is decided again).
"""
