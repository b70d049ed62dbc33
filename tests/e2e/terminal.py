"""A program in a real pseudo-terminal, and what a person sees on its screen."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import threading

import pyte

from support import PATIENCE, wait_until


class Terminal:
    """Runs a program in a terminal of so many lines and columns until its block ends."""

    def __init__(self, arguments, size=(24, 80), env=None):
        self.screen = pyte.Screen(size[1], size[0])
        self.stream = pyte.ByteStream(self.screen)
        self.raw, self.lock = bytearray(), threading.Lock()
        self.outer, self.inner = pty.openpty()
        self.resize(*size)
        self.settings = termios.tcgetattr(self.inner)
        self.process = subprocess.Popen(
            [str(argument) for argument in arguments], stdin=self.inner, stdout=self.inner, stderr=self.inner,
            env={**os.environ, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **(env or {})}, start_new_session=True)
        self.ended = threading.Event()
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        while not self.ended.is_set():
            if select.select([self.outer], [], [], 0.05)[0]:
                # Read with the lock held: what is no longer to be read is then in what is told.
                with self.lock:
                    data = os.read(self.outer, 65536)
                    self.raw += data
                    self.stream.feed(data)

    def resize(self, lines, columns):
        fcntl.ioctl(self.outer, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        with self.lock:
            self.screen.resize(lines, columns)
        if hasattr(self, "process"):
            self.process.send_signal(signal.SIGWINCH)

    def text(self):
        with self.lock:
            return "\n".join(line.rstrip() for line in self.screen.display)

    def output(self):
        with self.lock:
            return bytes(self.raw)

    def press(self, keys):
        os.write(self.outer, keys.encode())

    def sees(self, *texts):
        """Waits until all these texts are on the screen."""
        wait_until(lambda: f"{texts} in\n{self.text()}", lambda: all(text in self.text() for text in texts))

    def sees_no(self, text):
        wait_until(lambda: f"no {text} in\n{self.text()}", lambda: text not in self.text())

    def end(self):
        """Waits for the end; the exit code."""
        code = self.process.wait(PATIENCE)
        wait_until("everything is read", lambda: not select.select([self.outer], [], [], 0)[0])
        return code

    def is_as_before(self):
        """Whether the terminal is as if nobody had been there."""
        output = self.output()
        left = output.rfind(b"\x1b[?1049l") > output.rfind(b"\x1b[?1049h")
        cursor = output.rfind(b"\x1b[?25h") > output.rfind(b"\x1b[?25l")
        return left and cursor and termios.tcgetattr(self.inner) == self.settings

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.ended.set()
        self.reader.join()
        os.close(self.outer)
        os.close(self.inner)
