"""How fast is this machine's device?"""
