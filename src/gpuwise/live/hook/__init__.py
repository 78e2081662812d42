"""Code that runs inside the watched process. It needs only the standard library, because that Python may not have gpuwise."""
