"""Known facts: accelerators, features, container images (runtimes), instance types and prices.

Everything is a row of data/*.yaml with its source and the day it was checked; new hardware is a row, not code. Fleet looks up what
a label means (`Catalog.by_device_id`, `by_product`, ...), placement what runs where (`devices.architecture.runs_on`,
`images.versions.satisfies`, `Catalog.runtimes`) and what it costs (`price_of`, `indicative_price`).

Reading order: `entities` (the rows as values), `catalog` (their lookups), `devices` (identity, architecture, prices, efficiency),
`images` (runtimes: versions, when one contradicts itself), `models` (shapes by name), `files` (text to rows, files to a catalog).

**What a runtime's feature means.** A runtime has a feature when the package is present in that image, or can be installed there
from published wheels built for exactly its backend's version (CUDA 13.0, ROCm 7.2); compilers count when the image holds them.
What is merely likely to work is not a feature. An accelerator has a feature when the format is computed natively, or when the
package's documentation names its architecture. A job's requirement holds when every level that the feature names has it
(`Feature.levels`).
"""
