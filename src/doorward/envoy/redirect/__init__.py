"""The init step: which TCP connections of a pod or host reach the proxy instead of the service."""
