"""Which GPU should I buy, rent or keep?"""
