"""Policies and data as they come: files, folders, bundles; manifests, signatures, owners."""
