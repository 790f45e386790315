"""`fathom mcp`: the questions of the command line as tools for assistants, by the Model Context Protocol.

Here are the tools (`tools.py` is the table), how their answers are marked as data (`marked.py`), and the two
ways to serve them: stdio (`stdio.py`) and HTTP (`http.py`, `guard.py`). Texts and requests are the command
line's own. Nothing is decided here, and no rule is enforced here: the API server judges every request by the
rights of the caller, and makes what an assistant proposes wait for a person.
"""
