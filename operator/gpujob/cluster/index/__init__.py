"""Indexes over the cache: jobs, children and pods by owner, nodes without devices."""
