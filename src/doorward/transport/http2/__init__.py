"""An HTTP/2 server connection without I/O: RFC 9113 and RFC 7541, bytes in, bytes out.

`connection.py` is the state machine: it takes what a socket received and returns what to write.
`hpack.py` and `huffman.py` decode header blocks, `headers.py` checks the rules of a request's
header section, `limits.py` holds every bound with its reason, `codes.py` the numbers of the RFCs.
What a request means belongs to the application (`doorward.transport.grpc`).
"""
