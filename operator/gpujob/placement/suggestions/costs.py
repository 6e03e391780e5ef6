"""What each change of a job costs in the search for the nearest fix: 0 is no change, 1 gives a request up.

Fewer changes always come first; among equally many the sum of their costs decides. Less of an amount costs the share that is
given up, unless a row below says otherwise. The rows are in the order of their costs: first what a user minds least.
"""

from __future__ import annotations

from typing import Final

CLOSEST_NAME: Final = 0.1
"""An unknown name becomes the closest known one; further ones cost `NEXT_NAME` more each."""
NEXT_NAME: Final = 0.01
MORE_NODES: Final = 0.1
"""More nodes for a model that says no number, plus their share of the largest gang."""
FUSED_OPTIMIZER: Final = 0.15
OPTIONAL_NAME_DROPPED: Final = 0.2
"""An unknown PriorityClass or runtime that is near no known one is left out."""
CHECKPOINTING: Final = 0.2
PRICE_WITHIN_DOUBLE: Final = 0.25
"""Factor on a raised price limit, up to the double, for the one device or pool that the job names: the user wants that one."""
CAPACITY_TYPE_ADDED: Final = 0.25
NAME_ALLOWED: Final = 0.3
"""An accelerator or pool of a vendor that the job names is added to those that it allows, or replaces that of a gang."""
CLOSER_DEVICE: Final = 0.01
"""Less for an accelerator of the same vendor, again for the same architecture, and again for the same model; of these the less, the
less it lacks of the figures of the one that the job names.
"""
SHARDED: Final = 0.3
"""The model is sharded over the job's GPUs, or over more of them (plus a thousandth for each)."""
PER_GPU: Final = 0.001
UP_TO_A_MINIMUM: Final = 0.3
"""An amount is raised to the least that a LimitRange allows."""
GPUS_FROM_MODEL: Final = 0.35
"""The number of GPUs is left to the model."""
NAME_DENIED_NO_MORE: Final = 0.4
DEVICE_KIND_ADDED: Final = 0.4
DEVICE_KIND_OF_A_NAME: Final = 0.2
"""The kind of a device that the job names and that no node has otherwise: an MI300A is always Integrated."""
SMALLER_BATCH: Final = 0.4
FEWER_REQUESTS_AT_ONCE: Final = 0.4
SMALLER_RANK: Final = 0.45
OPTIMIZER_OF_8_BITS: Final = 0.45
LESS: Final = 0.46
"""Less memory of each GPU, fewer GPUs or fewer nodes; with the share that is given up less than `LESS_AT_MOST`, see `of_less`."""
LESS_AT_MOST: Final = 0.59
ROOT: Final = 0.5
BUDGET_DROPPED: Final = 0.5
AMOUNT_OF_A_SHARE: Final = 0.5
"""An amount is written where the job leaves it to the node's share."""
OTHER_PRECISION: Final = 0.5
"""Another number format; in the order of the formats that are tried, `NEXT_NAME` more each."""
OTHER_VERSION: Final = 0.5
"""Exactly the image's version, plus less than `FARTHEST_VERSION` by the distance of the versions."""
FARTHEST_VERSION: Final = 0.08
FEATURE_DROPPED: Final = 0.55
"""Features are left out, plus `EACH_FEATURE` for each."""
EACH_FEATURE: Final = 0.05
VERSION_DROPPED: Final = 0.59
SMALLER_DEVICE: Final = 0.592
"""Parts or shares of a device for a job that takes whole ones: more than fewer GPUs or nodes, which leave each GPU its memory."""
OTHER_VENDOR: Final = 0.595
"""A vendor, or a device of another one, is added to those that the job allows."""
UNKNOWN_NAME_DROPPED: Final = 0.6
PRIORITY_DROPPED: Final = 0.6
"""The PriorityClass is left out, because its quota leaves too little."""
SMALLER_CLAIM: Final = 0.6
"""Any smaller claim costs more than this: a job with fewer nodes takes longer, one without the disk for its files fails."""
FEWER_TOKENS: Final = 0.6
NARROWER_WEIGHTS: Final = 0.62
"""A served model is loaded in a number format of fewer bits; `NEXT_NAME` more for each step."""
SHORTER_SEQUENCE: Final = 0.65
ADAPTERS: Final = 0.7
"""LoRA in place of full training; QLoRA costs `NEXT_METHOD` more."""
NEXT_METHOD: Final = 0.05
PRICE_BY_SHARE: Final = 0.8
"""The share up to which a raised price limit costs that share; beyond, less and less, and never `PRICE_AT_MOST`."""
PRICE_AT_MOST: Final = 0.9
PRICE_UNKNOWN_OF_A_NAME: Final = 0.905
"""The price limit is left out for the one device or pool that the job names, whose price is unknown: less than another device."""
CATALOG_IMAGES: Final = 0.9
"""The job's own images give way to the catalog's."""
ONE_GPU: Final = 0.9
ONE_NODE: Final = 0.91
"""One GPU a pod, or one pod, for devices that cannot form a gang."""
LARGEST_LESS: Final = 0.94
"""The most that a lower amount of a resource costs, so that no amount at all costs more."""
AMOUNT_DROPPED: Final = 0.95
PRICE_LIMIT_DROPPED: Final = 0.95


def of_less(share: float) -> float:
    """The cost of less memory of each GPU, of fewer GPUs or nodes, by the share that is given up: more than that of any longer list or
    other device of the vendors that the job names, less than that of another vendor.
    """
    return LESS + (LESS_AT_MOST - LESS) * share


def of_a_cut(distance: float, limited: bool) -> float:
    """The cost of a change without which a program may not run as it is, or not where the user wants: less memory, a smaller gang, a
    feature or a version less, another vendor, accelerator, pool, capacity type or kind of device.

    Of a job with a price limit it is more than that of any higher limit: the limit was for what the job asks otherwise.
    """
    return PRICE_AT_MOST + (1 - PRICE_AT_MOST) * distance if limited else distance
