"""Rules of ConfigMaps, Secrets and volumes."""
