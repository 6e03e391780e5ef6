"""Builds pools from nodes, pods, reservations and future nodes."""
