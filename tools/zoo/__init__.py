"""The models of the zoo as PyTorch code: what `tools/build_zoo.py` captures. Not shipped with gpuwise."""
