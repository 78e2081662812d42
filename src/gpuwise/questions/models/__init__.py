"""Which models can be asked about by name alone?"""
