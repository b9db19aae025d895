"""gRPC over the HTTP/2 core: which method a request names, its messages, its status.

`methods.py` has the routes of unary and streaming calls, `messages.py` the framing and
compression, `status.py` the codes and the header blocks of responses. `health.py` and
`reflection.py` are the two standard services. The protocol is "gRPC over HTTP2" of the gRPC
project.
"""
