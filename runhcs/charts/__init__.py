"""Charts without scripts or external files: SVG elements, the style of a page with them, and slopes with intervals.

The reports of `bench` and of `runhcs soak` use them. Standard library only, and of that only what the zip for Windows
nodes has.
"""
