"""What sockets can do and transports cannot: resetting, and counting what was not acknowledged."""

import asyncio
import fcntl
import socket
import struct
import sys
import termios


def reset(transport: asyncio.Transport) -> None:
    """Reset the connection, and discard what has not been sent."""
    # By default the kernel would send what it buffers, and then a regular end.
    linger_0 = struct.pack("ii", 1, 0)
    _socket_of(transport).setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger_0)
    transport.abort()


def unacknowledged(transport: asyncio.Transport) -> int:
    """Return the number of bytes that the peer has not acknowledged.

    What the kernel buffers counts only on platforms that report it.
    """
    try:
        in_kernel = fcntl.ioctl(_socket_of(transport).fileno(), termios.TIOCOUTQ, bytes(4))
    except (OSError, ValueError):  # not supported on every platform, or closed
        in_kernel = bytes(4)
    return transport.get_write_buffer_size() + int.from_bytes(in_kernel, sys.byteorder)


def _socket_of(transport: asyncio.Transport) -> socket.socket:
    found: socket.socket = transport.get_extra_info("socket")
    return found
