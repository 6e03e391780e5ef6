"""Filters that reject a pool for a job, each with one reason, and which of them an admin can fix."""
