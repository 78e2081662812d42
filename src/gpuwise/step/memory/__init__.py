"""How much memory a step needs on one GPU, as allocators and frameworks take it."""
