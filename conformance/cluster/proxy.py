"""TCP proxies between nodes and PostgreSQL, which cut, hold, delay, and close in the middle of a statement.

All run in one thread, on asyncio. The traps look for MARK in what a node sends: values of the checks contain it, so a trap meets a commit
and no other statement.
"""
import asyncio, random, socket, threading

MARK = b"mark-"
HOST = "127.0.0.1"


class Loop:
    """The thread of all proxies."""

    def __init__(self):
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self.thread.start()

    def call(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def stop(self):
        async def work():
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        self.call(work())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(5)


class Proxy:
    """Forwards connections of its port to another port. The attributes are set by other threads at any time:

    refuse    new connections are closed at once
    silent    nothing is forwarded in both directions, connections stay open
    delay     seconds, with as much jitter, for everything that is forwarded
    trap      what happens to the next commit, once: "before" (it is not forwarded), "half" (its first half is), "reply" (the reply is not
              forwarded), "half-reply" (its first byte is). Then the connection is aborted.
    """

    def __init__(self, loop, target, pick=None):
        self.loop, self.target, self.pick = loop, target, pick or random.Random(0)
        self.refuse, self.silent, self.delay, self.trap, self.sprung, self.links = False, False, 0.0, None, 0, set()
        self.bytes = 0
        self.server = loop.call(self.listen())
        self.port = self.server.sockets[0].getsockname()[1]

    async def listen(self):
        return await asyncio.start_server(self.accept, HOST, 0)

    async def accept(self, reader, writer):
        if self.refuse:
            writer.transport.abort()
            return
        try:
            near, far = writer, None
            back, far = await asyncio.open_connection(HOST, self.target)
        except OSError:
            writer.transport.abort()
            return
        for one in (near, far):
            one.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        link = Link(self, near, far)
        self.links.add(link)
        tasks = [asyncio.create_task(link.forward(reader, far, True)), asyncio.create_task(link.forward(back, near, False))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            pass
        finally:
            self.links.discard(link)
            link.close()
            for task in tasks:
                task.cancel()

    def cut(self, abort=True):
        """Ends all connections: with RST, or with FIN."""
        async def work():
            for link in list(self.links):
                link.close(abort)
        self.loop.call(work())

    def stop(self):
        async def work():
            self.server.close()
            for link in list(self.links):
                link.close()
        self.loop.call(work())


class Link:
    """One connection through a proxy."""

    def __init__(self, proxy, near, far):
        self.proxy, self.near, self.far, self.caught = proxy, near, far, None

    async def forward(self, reader, writer, is_request):
        proxy = self.proxy
        try:
            while data := await reader.read(65536):
                while proxy.silent:
                    await asyncio.sleep(0.01)
                if proxy.delay:
                    await asyncio.sleep(proxy.delay * (0.5 + proxy.pick.random()))
                proxy.bytes += len(data)
                if is_request and proxy.trap and not self.caught and MARK in data:
                    self.caught, proxy.trap, proxy.sprung = proxy.trap, None, proxy.sprung + 1
                    data = {"before": b"", "half": data[:len(data) // 2]}.get(self.caught, data)
                elif not is_request and self.caught:
                    data = data[:1] if self.caught == "half-reply" else b""
                writer.write(data)
                await writer.drain()
                if self.caught and (not is_request or self.caught in ("before", "half")):
                    # The statement has time to end, or not.
                    await asyncio.sleep(proxy.pick.choice((0, 0, 0.02)))
                    return
        except (OSError, asyncio.CancelledError):
            pass

    def close(self, abort=True):
        for writer in (self.near, self.far):
            writer.transport.abort() if abort else writer.close()
