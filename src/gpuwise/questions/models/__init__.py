"""Which models are included and can be used by name?"""
