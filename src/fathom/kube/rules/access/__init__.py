"""Rules of roles, bindings, certificates and trust bundles."""
