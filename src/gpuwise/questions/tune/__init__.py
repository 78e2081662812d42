"""Which batch, power limit or settings are fastest?"""
