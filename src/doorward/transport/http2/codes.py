"""The numbers of RFC 9113 and how they are packed: types, flags, error codes and settings."""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import Final

__all__ = [
    "FRAME_HEAD",
    "UINT32",
    "ErrorCode",
    "Flag",
    "FrameType",
    "Http2Error",
    "Setting",
    "StreamError",
]

FRAME_HEAD: Final = Struct(">HBBBL")
"""Length in three bytes (two and one), type, flags, stream."""
UINT32: Final = Struct(">L")


class FrameType(IntEnum):
    """The types of HTTP/2 frames (RFC 9113, section 6)."""

    DATA = 0
    HEADERS = 1
    PRIORITY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class Flag:
    """Flags of frames; what a bit means depends on the frame's type."""

    ACK: Final = 0x1
    END_STREAM: Final = 0x1
    END_HEADERS: Final = 0x4
    PADDED: Final = 0x8
    PRIORITY: Final = 0x20


class ErrorCode(IntEnum):
    """The error codes of HTTP/2 (RFC 9113, section 7)."""

    NO_ERROR = 0x0
    PROTOCOL_ERROR = 0x1
    INTERNAL_ERROR = 0x2
    FLOW_CONTROL_ERROR = 0x3
    SETTINGS_TIMEOUT = 0x4
    STREAM_CLOSED = 0x5
    FRAME_SIZE_ERROR = 0x6
    REFUSED_STREAM = 0x7
    CANCEL = 0x8
    COMPRESSION_ERROR = 0x9
    CONNECT_ERROR = 0xA
    ENHANCE_YOUR_CALM = 0xB
    INADEQUATE_SECURITY = 0xC
    HTTP_1_1_REQUIRED = 0xD


class Setting(IntEnum):
    """The parameters in a SETTINGS frame of HTTP/2 (RFC 9113, section 6.5.2)."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class Http2Error(Exception):
    """A connection error: GOAWAY with `code`, and the connection ends (RFC 9113, section 5.4.1)."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class StreamError(Exception):
    """A stream error: RST_STREAM with `code`; the connection continues (section 5.4.2)."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
