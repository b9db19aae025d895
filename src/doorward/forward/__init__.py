"""Forward-auth: proxies that ask over HTTP whether a request may pass, answered by the same check.

    proxy's question -> `request` -> HttpRequest -> `enforcement.check` -> Verdict -> proxy's answer

One endpoint for each proxy, since each says in another way what the client requested; `kit` writes
the configuration of each.
"""
