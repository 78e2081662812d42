"""The zoo's models as PyTorch code, which `tools/build_zoo.py` captures. Not shipped with gpuwise."""
