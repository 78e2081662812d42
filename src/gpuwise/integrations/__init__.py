"""Watching from inside the frameworks people use: a loop of torch, and callbacks for Lightning, Hugging Face and Keras.

Each `callback()` makes an object of the framework's own callback class; the framework is imported by the call, not before.
"""
