"""The program of the plugin's archive."""

from gpujob.cli.main import run

run()
