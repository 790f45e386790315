"""`fathom top`: two pages in a terminal, Now and Workload, live.

    lists, watches ──> feed ──> ClusterSeen ──now_view, workload_view──> views ──*_lines──> lines ──> app

Views and lines are pure: tests and pipes need no terminal. Only `app` and `page` know Textual, and they are
imported only when there is a terminal: `fathom --help` and pipes must not wait for it.
"""
