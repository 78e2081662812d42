"""Questions from real buyers, with the answers they received, which we ask gpuwise. There is one module per topic, and
`registry.py` lists them all."""

__all__: list[str] = []
