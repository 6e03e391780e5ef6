"""Which changes of a job answer which reason of a candidate, for the search of the nearest fix."""

from __future__ import annotations

from typing import Final

from gpujob.placement.suggestions.constraints import (
    as_root,
    catalog_images,
    fewer_features,
    higher_price,
    more_capacity_types,
    more_devices,
    more_vendors,
    other_accelerators,
    other_pools,
    other_precision,
    other_versions,
)
from gpujob.placement.suggestions.model_memory import fewer_for_model, lighter_model, more_nodes
from gpujob.placement.suggestions.namespace_limits import other_priority, within_limits, within_quota
from gpujob.placement.suggestions.proposal import Repair
from gpujob.placement.suggestions.requests import (
    less_memory,
    one_node,
    smaller_disk,
    smaller_gang,
    smaller_pods,
    whole_nodes,
)
from gpujob.values.vocabulary import Reason

REPAIRS: Final[dict[Reason, tuple[Repair, ...]]] = {
    Reason.VENDOR_EXCLUDED: (more_vendors,),
    Reason.ACCELERATOR_EXCLUDED: (other_accelerators,),
    Reason.POOL_EXCLUDED: (other_pools,),
    Reason.CAPACITY_TYPE_EXCLUDED: (more_capacity_types,),
    Reason.DEVICE_EXCLUDED: (more_devices,),
    Reason.SHARED_DEVICE: (more_devices,),
    Reason.ARCH_UNSUPPORTED: (catalog_images,),
    Reason.DRIVER_TOO_OLD: (catalog_images,),
    Reason.CPU_ARCH_MISMATCH: (catalog_images,),
    Reason.IMAGE_NEEDS_ROOT: (as_root, catalog_images),
    Reason.PRECISION_UNSUPPORTED: (fewer_features, other_precision),
    Reason.FRAMEWORK_UNSUPPORTED: (fewer_features, other_versions, catalog_images),
    Reason.ACCESS_MODE: (one_node, fewer_for_model),
    Reason.WHOLE_NODES_ONLY: (whole_nodes,),
    Reason.POOL_TOO_SMALL: (smaller_gang, fewer_for_model),
    Reason.MAY_GROW: (smaller_gang, fewer_for_model),
    Reason.TAINT_NOT_TOLERATED: (smaller_gang, fewer_for_model),
    Reason.ZONE_CONFLICT: (smaller_gang, fewer_for_model),
    Reason.NODES_NOT_SELECTED: (smaller_gang, fewer_for_model),
    Reason.IMAGE_VOLUME_UNSUPPORTED: (smaller_gang, fewer_for_model),
    Reason.DISK_TOO_SMALL: (smaller_disk, smaller_gang),
    Reason.NODE_TOO_SMALL: (smaller_pods, smaller_gang, fewer_for_model),
    Reason.MEM_TOO_SMALL: (less_memory, more_nodes, lighter_model),
    Reason.LIMIT_RANGE: (within_limits, fewer_for_model),
    Reason.QUOTA_EXCEEDED: (within_quota, fewer_for_model, other_priority),
    Reason.PRICE_UNKNOWN: (higher_price,),
    Reason.PRICE_CAP: (higher_price, fewer_for_model),
}
"""The changes of the job that answer a reason; a reason without an entry lies in the cluster. In the order in which several reasons
are answered: first those with few changes, last the price, which follows from the others.
"""
