"""What does this machine's device reach?"""
