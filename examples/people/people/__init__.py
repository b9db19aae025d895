"""The People API: an ordinary REST service that keeps person records.

HTTP requests become rows of a database and JSON answers. Nothing here knows of tokens, roles,
proxies or policies, and nothing here may: the example shows that authorization is added in front
of a service that is not changed for it.
"""

from __future__ import annotations
