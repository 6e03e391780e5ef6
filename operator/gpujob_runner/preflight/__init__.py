"""Checks that image, devices, memory and folders are what was promised, before the program starts."""
