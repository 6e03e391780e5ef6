"""Which image runs a job on a pool: filters, drivers, compatibility, selection.

Reading order: `image` (images to try), `filters` (reasons against them), `drivers`, `gfx_override`,
`compatibility` (an image on a pool's equipment), `selection` (the images of one decision).
"""
