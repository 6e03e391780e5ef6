"""The relative speed of a pool's devices for a job: measured by earlier runs, else from the catalog."""

from __future__ import annotations

from dataclasses import replace

from gpujob.catalog.catalog import Catalog
from gpujob.catalog.devices.throughput import Speed
from gpujob.fleet.pools.pool import Pool
from gpujob.placement.request.demand import Demand


def speed_of(demand: Demand, pool: Pool, catalog: Catalog) -> Speed | None:
    """The relative speed of one device from earlier runs, else from the catalog; a fraction of a device has that fraction of the
    speed, as an estimate.
    """
    if demand.learned is not None:
        measured = demand.learned.speed(pool.device, demand.gang.shape, lambda known: catalog.speed(known, demand.work))
        if measured is not None:
            return measured
    speed = catalog.speed(pool.accelerator.id, demand.work) if pool.accelerator else None
    if speed is None or pool.share is None:
        return None
    numerator, denominator = pool.share
    if pool.share == (1, 1):
        return speed
    source = f"{numerator}/{denominator} of {speed.source}"
    return replace(speed, millionths=speed.millionths * numerator // denominator, estimate=True, source=source)
