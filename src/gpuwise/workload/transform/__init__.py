"""Rewrites a captured step: recomputation, adapters, packed weights, shards, other precisions."""
