"""Own or rent?"""
