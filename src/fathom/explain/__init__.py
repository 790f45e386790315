"""Why things are as they are: pure functions over what was recorded, what is there, and the deciders.

Nothing here reads a file or asks a server, and nothing here decides: it asks those who do.
"""
