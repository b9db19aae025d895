"""The bounds of a connection, each with its reason. All of them end in an error of RFC 9113."""

from __future__ import annotations

from doorward.base.records import record

__all__ = ["Limits"]


@record
class Limits:
    """The limits of one connection. Sizes are bytes, times are seconds."""

    max_concurrent_streams: int = 100
    """Streams open at the same time; further ones are refused (REFUSED_STREAM), which clients may
    retry. RFC 9113 recommends at least 100."""

    header_list_size: int = 16_384
    """Names, values and 32 for each field, after decompression. A larger list gets 431."""

    header_block_size: int = 32_768
    """Compressed bytes of HEADERS and its CONTINUATION frames: an endless sequence of them
    (CVE-2024-27316) ends the connection."""

    header_table_size: int = 4_096
    """Bytes of the dynamic table of header compression, the default of RFC 7541."""

    max_frame_size: int = 16_384
    """Payload of a received frame, the least that RFC 9113 allows."""

    stream_window: int = 1_048_576
    """Bytes of a stream that may arrive before they are acknowledged: most messages fit."""

    connection_window: int = 4_194_304
    """Bytes of all streams of a connection that may arrive before they are acknowledged."""

    credit: int = 2_000
    """Frames without work for the application (SETTINGS, PING, PRIORITY, WINDOW_UPDATE, empty DATA,
    unknown types) that may arrive at once. Past it: ENHANCE_YOUR_CALM (CVE-2019-9512, -9515,
    -9518)."""

    credit_per_second: int = 1_000
    """The credit that a second restores."""

    credit_per_request: int = 3
    """The credit that a complete request restores: clients send a PING or WINDOW_UPDATE with most
    of them."""

    reset_cost: int = 5
    """The credit that a reset of an open stream costs, so that 400 at once or 200 a second end the
    connection (rapid reset, CVE-2023-44487)."""

    cached_blocks: int = 64
    """Header blocks whose meaning is kept while the dynamic table stays the same. All connections
    together keep 16 MiB of them."""

    send_timeout: float = 30.0
    """Seconds that a response may wait for the client's flow control window."""

    header_timeout: float = 5.0
    """Seconds for the preface of a connection, and for the rest of a header block."""
