"""How fast is every model of a list on many GPUs at many batches?"""
