"""Many jobs at once: the order of the queue, and one snapshot in which each placed job reserves its devices.

Reading order: `queue` (the cycle), `quota_ledger` (what quotas leave), `gains` (whether a newer snapshot can change a refusal),
`round_robin` (namespaces take turns).
"""
