"""`python -m gpuwise`."""

from gpuwise.cli.main import main

__all__: list[str] = []

main()
