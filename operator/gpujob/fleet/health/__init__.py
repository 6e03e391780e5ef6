"""Signals of a node's health: one table for conditions, labels and taints of both vendors' agents."""
