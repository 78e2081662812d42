"""How fast is each of many models on many GPUs at many batches?"""
