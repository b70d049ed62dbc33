"""A server whose dashboard is tested: on a port that stays the same when it is restarted."""

from support import Folder, Running, free_port, tollgate_binary


class DashboardServer:
    def __init__(self, policy, *arguments, **files):
        self.folder = Folder()
        self.port, self.running = free_port(), None
        for name, text in {"limits.toml": policy, **files}.items():
            self.folder.write(name, text)
        self.command = [tollgate_binary(), "serve", "--http", f"127.0.0.1:{self.port}", "--grpc", "off", "--resp", "off",
                        "--policy", "limits.toml", *arguments]
        self.start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.port}"

    def start(self):
        self.running = Running(self.command, [self.port], self.folder.path)

    def kill(self):
        self.running.kill()

    def stop(self):
        return self.running.stop()

    def remove(self):
        self.stop()
        self.folder.remove()
