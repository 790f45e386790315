"""The three types of patch: JSON (RFC 6902), JSON merge (RFC 7386) and Kubernetes' strategic merge.

Here: pure functions from a document and a patch to a new document. The document given is never changed; the
new one shares with it what the patch left unchanged. Never here: validation of the new document.
"""
