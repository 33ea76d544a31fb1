"""Stands for `python -m MODULE ARGUMENTS`: a fork of the server at ADDRESS does it, on our streams.

For what starts a command line by itself, as a client of `profiler serve` does.
"""

import json
import os
import socket
import sys

MESSAGE_BYTES = 1 << 16
STREAMS = (1, 2, 0)
"""Streams in the order of `fork_server.STREAMS`: importing that takes longer than all of this."""


def main(address, *argv):
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.connect(f"\0{address}")
        order = {"argv": argv, "cwd": os.getcwd(), "environment": dict(os.environ)}  # noqa: PTH109
        socket.send_fds(connection, [json.dumps(order).encode()], STREAMS)
        connection.recv(MESSAGE_BYTES)  # its process id
        code = int(connection.recv(MESSAGE_BYTES))
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
