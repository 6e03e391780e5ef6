"""Reads the reporters of running pods."""
