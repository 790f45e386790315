"""The web page: its files, its login and its sessions, served by the API server under /ui/.

    browser ──/ui/…──────────> files (public), login, links, sessions, one stream for all watches of a page
            ──/api/…, /apis/…─> the Kubernetes API: session ──> User, then the same way as every request

Here: what is special about a browser. Never here: a second way to the objects. The page reads and asks by the
same API as kubectl, so that RBAC, audit and limits are the same code. `static/` has the page itself: plain ES
modules and CSS, nothing to build. Nothing imports this package but the wiring.
"""
