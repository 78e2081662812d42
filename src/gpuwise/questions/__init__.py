"""The questions gpuwise answers, one folder each. Questions do not import each other; `common` has the code that several
share.
"""
