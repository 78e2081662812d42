"""Card A or card B?"""
