"""One small file per verb. A verb reads what was asked, has `api/writing` do what changes the store, and
chooses the form of the answer. Never here: authentication, authorization, audit (see `api/server`)."""
