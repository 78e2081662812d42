"""Questions from real buyers with the answers they got, put to gpuwise. One module per topic; `registry.py` lists them all."""

__all__: list[str] = []
