"""Which image runs a job on a pool: filters, drivers, compatibility, selection."""
