"""HTTP/1.1 on httptools: bytes become requests, responses become bytes.

`connection.py` is one connection with its bounds; a request goes to a function that may answer it
at once, else to an ASGI application (`asgi.py`). Nothing in here knows what is served.
"""
