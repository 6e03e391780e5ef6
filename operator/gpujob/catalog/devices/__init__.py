"""Accelerators: identity by name or id, architecture, price, roofline and measured throughput.

Reading order: `identity` (from a label to a row) with `machine_names` (whole machines), `likeness` (unknown names) and
`families` (words for more than one model), `architecture` (which code runs there); `pricelist` (what it costs); `roofline`,
`efficiency`, `data_sheet_order`, `efficiency_fit`, `throughput` (how fast it is).
"""
