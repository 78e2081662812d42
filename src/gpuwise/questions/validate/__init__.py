"""How accurate are the predictions on unseen machines and models?"""
