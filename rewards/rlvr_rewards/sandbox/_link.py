"""Two processes that call each other over one socket, in turns: a request may be answered by further requests.

Messages are length-prefixed tagged JSON: `{"q": [operation, ...]}` asks, anything else answers the latest question.
"""

import os
import struct
import threading
from collections.abc import Callable
from typing import Any

from rlvr_rewards.sandbox import _codec, _decode

Message = dict[str, Any]


class Closed(Exception):
    """The other process has ended, or sends what nobody honest would."""


class Link:
    """One end.

    Args:
        descriptor: The socket.
        serve: Answers a request of the other side; it must not raise.
    """

    def __init__(self, descriptor: int, serve: Callable[[list[Any]], Message]) -> None:
        self._descriptor, self._serve = descriptor, serve
        self._broken = ""
        self._lock = threading.RLock()  # calls from several threads take turns; a nested call goes through

    def ask(self, request: list[Any]) -> Message:
        """Send a request and return the answer, serving the other side's requests meanwhile.

        Raises:
            Closed: The other side has gone, or broke the protocol.
        """
        with self._lock:
            if self._broken:
                raise Closed(self._broken)  # after a broken frame nothing that follows can be told apart
            try:
                self.send({"q": request})
                while True:
                    message = self.receive()
                    if "q" not in message:
                        return message
                    self.answer(message)
            except Closed as error:
                self._broken = str(error)
                raise

    def answer(self, message: Message) -> None:
        """Serve one received request."""
        if type(message["q"]) is not list or not message["q"]:
            raise Closed("a malformed request")
        self.send(self._serve(message["q"]))

    def send(self, message: Message) -> None:
        """Send one message."""
        data = _codec.dumps(message)
        if len(data) > _codec.MAX_BYTES:
            data = _codec.dumps({"u": f"a message longer than {_codec.MAX_BYTES} bytes"})
        view = memoryview(struct.pack("<I", len(data)) + data)
        try:
            while view:
                view = view[os.write(self._descriptor, view) :]
        except OSError as error:
            raise Closed("the other process has ended") from error

    def receive(self) -> Message:
        """Wait for one message."""
        (size,) = struct.unpack("<I", self._read(4))
        if size > _codec.MAX_BYTES:
            raise Closed("a message too long")
        try:
            message = _decode.loads(self._read(size))
        except _decode.Malformed as error:
            raise Closed(str(error)) from None
        if type(message) is not dict:
            raise Closed("no message")
        return message

    def _read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                chunk = os.read(self._descriptor, size - len(data))
            except OSError:
                chunk = b""
            if not chunk:
                raise Closed("the other process has ended")
            data = data + chunk if data else chunk
        return data
