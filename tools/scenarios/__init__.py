"""Questions of buyers with the answers they got, asked of gpuwise. One module a topic; `registry.py` holds them all."""

__all__: list[str] = []
