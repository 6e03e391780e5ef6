"""Accelerators: identity by name or id, architecture, price, roofline and measured throughput."""
