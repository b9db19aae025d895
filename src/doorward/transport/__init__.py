"""Bytes and sockets: the servers' transports, which know nothing of decisions.

`http2/` is an HTTP/2 server core without I/O, `grpc/` the unary and streaming calls on it, and
`server.py` the event loop, the listeners and the clock. What is served is a function of bytes
(`doorward.envoy.check` makes one); nothing in here imports an adapter, a policy or the language.
"""
