"""The demonstration behind `make demo`: what a newcomer sees first, on a real control plane."""
