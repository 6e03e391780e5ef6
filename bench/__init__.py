"""Head-to-head measurements, each one command."""
