"""slow_link.py -- a link between a client and a server: so long, and so narrow, for all connections together.

    link = SlowLink(port_of_the_server, delay_s=0.025, bytes_per_s=400000)
    ... 127.0.0.1:link.port ...
    link.close()

A relay for kernels without netem: each piece arrives `delay_s` after it was sent, in order, and pieces of all
connections share the rate.  It takes little before it passes it on, as a network does, so that what waits, waits at
its sender.  The end of a direction is passed on too.
"""
import asyncio
import socket
import threading

PIECE = 4096
HELD = 65536  # of a connection, on the way


class SlowLink:
    def __init__(self, to_port, delay_s, bytes_per_s=0):
        self.to_port, self.delay_s, self.bytes_per_s = to_port, delay_s, bytes_per_s
        self.free_at, self.connections = 0.0, 0
        self.loop = asyncio.new_event_loop()
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.create_task(asyncio.start_server(self.connected, sock=self.listener, limit=PIECE))
        self.loop.run_forever()
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))
        self.loop.close()

    def close(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()
        self.listener.close()

    async def connected(self, reader, writer):
        self.connections += 1
        out = socket.socket()
        out.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, HELD)  # before the window is announced
        out.setblocking(False)
        try:
            await self.loop.sock_connect(out, ("127.0.0.1", self.to_port))
            far_reader, far_writer = await asyncio.open_connection(sock=out, limit=PIECE)
            await asyncio.gather(self.way(reader, far_writer), self.way(far_reader, writer, self.bytes_per_s))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            out.close()

    async def way(self, reader, writer, rate=0):
        """One direction: a task takes, this one delivers when it is time."""
        sent = asyncio.Queue(maxsize=HELD // PIECE)

        async def take():
            while True:
                piece = await reader.read(PIECE)
                now = self.loop.time()
                if rate:
                    self.free_at = now = max(now, self.free_at) + len(piece) / rate
                    await asyncio.sleep(now - self.loop.time())
                await sent.put((now + self.delay_s, piece))
                if not piece:
                    return

        taker = asyncio.ensure_future(take())
        try:
            while True:
                at, piece = await sent.get()
                await asyncio.sleep(max(0, at - self.loop.time()))
                if not piece:
                    writer.write_eof() if writer.can_write_eof() else writer.close()
                    return
                writer.write(piece)
                await writer.drain()
        finally:
            taker.cancel()
