"""One small file per verb: decode the request, let `api/writing` change the store, choose the answer's form.

Never here: authentication, authorization, audit (see `api/server`).
"""
