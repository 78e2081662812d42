"""Watch training from inside a framework: a PyTorch loop, and callbacks for Lightning, Hugging Face and Keras.

Each `callback()` returns an instance of the framework's own callback class. The framework is imported only by that call.
"""
