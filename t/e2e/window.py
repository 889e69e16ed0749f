#!/usr/bin/env python3
"""window.py TARND [TEST...] -- responses too large to keep, which readers share as they stream.

The store is 64 MiB, the largest object 256 KiB, the window 4 MiB and what one reader alone gets
64 KiB.  Bodies are 24 MiB, more than every buffer on the way.  Nothing depends on how fast the
machine is: where order matters, one side waits for the other to have seen something.
"""
import json
import socket
import sys
import threading
import time
import unittest

sys.dont_write_bytecode = True
from origin import Origin, body
from tarnd import PATIENCE_S, Answer, Tarnd, read_to_end, request, reset, wait_until

MI = 1024 * 1024
SIZE = 24 * MI
PIECE = 128 * 1024

CONFIG = """
workers: 2
storage:
  main: {{ engine: malloc, size: 64MiB }}
backends:
  origin: {{ address: "{origin}" }}
parameters: {{ max_object_size: 256KiB, stream_window: 4MiB, transit_buffer: 64KiB }}
admin: {{ address: "unix:{{dir}}/admin.sock" }}
"""


class Script:
    """An answer to one target: counted, held back where a test says so."""

    def __init__(self, framing="length", etag='"v1"', size=SIZE, ranges=True):
        self.framing, self.etag, self.size, self.ranges = framing, etag, size, ranges
        self.head, self.gate = threading.Event(), threading.Event()  # the body's rest, behind a piece
        self.head.set()
        self.gate.set()
        self.ranged, self.several = [], []
        self.broken = 0  # connections that tarnd left
        self.cut_at = None

    def __call__(self, handler):
        data = memoryview(body(self.size))
        self.head.wait(PATIENCE_S)
        asked = handler.headers.get("Range")
        if asked is not None and "," in asked:
            self.several.append(asked)
        if asked is not None and self.ranges and "," not in asked:
            self.ranged.append((asked, handler.headers.get("If-Range")))
            first = int(asked[len("bytes="):].split("-")[0])
            handler.send_response(206)
            handler.send_header("Content-Range", f"bytes {first}-{self.size - 1}/{self.size}")
            handler.send_header("Content-Length", str(self.size - first))
            data = data[first:]
            handler.chunked = False
        else:
            handler.send_response(200)
            handler.chunked = self.framing == "chunked"
            if handler.chunked:
                handler.send_header("Transfer-Encoding", "chunked")
            else:
                handler.send_header("Content-Length", str(self.size))
        handler.send_header("Cache-Control", "max-age=600")
        if self.etag is not None:
            handler.send_header("ETag", self.etag)
        handler.end_headers()
        try:
            for at in range(0, len(data), PIECE):
                if at > 0:
                    self.gate.wait(PATIENCE_S)
                if self.cut_at is not None and at >= self.cut_at:
                    handler.close_connection = True
                    return
                handler.piece(data[at:at + PIECE])
            handler.end()
        except OSError:
            self.broken += 1
            raise


class Reader(threading.Thread):
    """Asks for a target and reads the answer to its end."""

    def __init__(self, tarnd, target, *lines):
        super().__init__(daemon=True)
        self.socket = tarnd.connect()
        self.socket.sendall(request(target, *lines, "Connection: close"))
        self.start()

    def run(self):
        with self.socket:
            self.answer = Answer(read_to_end(self.socket))

    def result(self):
        self.join(PATIENCE_S)
        return self.answer


class Steady(Reader):
    """One that reads all the time, a piece every few milliseconds."""

    PAUSE_S = 0.01

    def run(self):
        data = bytearray()
        with self.socket:
            while piece := self.socket.recv(PIECE):
                data += piece
                time.sleep(self.PAUSE_S)
        self.answer = Answer(bytes(data))


class Slow:
    """A client that reads only when told to."""

    def __init__(self, tarnd, target):
        self.socket = tarnd.connect(receive_buffer=4096)
        self.socket.sendall(request(target, "Connection: close"))
        self.data = b""

    def rest(self):
        with self.socket:
            return Answer(self.data + read_to_end(self.socket))


class Windows(unittest.TestCase):
    def setUp(self):
        self.origin = Origin()
        self.tarnd = Tarnd(PROGRAM, CONFIG.format(origin=self.origin.address))

    def tearDown(self):
        status = self.tarnd.close()
        self.origin.shutdown()
        self.origin.server_close()
        self.assertEqual(status, 0)

    def counters(self):
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.tarnd.dir + "/admin.sock")
            s.sendall(b"GET /v1/counters HTTP/1.1\r\nHost: tarn\r\nConnection: close\r\n\r\n")
            return json.loads(Answer(read_to_end(s)).body)

    def wait_while_bytes_come(self, seconds):
        """Until none has come from the origin for so long."""
        got, since = None, time.monotonic()
        while time.monotonic() < since + seconds:
            now = self.counter("fetch.bytes")
            if now != got:
                got, since = now, time.monotonic()
            time.sleep(0.05)

    def set_parameter(self, name, value):
        text = json.dumps({"value": value})
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.tarnd.dir + "/admin.sock")
            s.sendall(f"PUT /v1/parameters/{name} HTTP/1.1\r\nHost: tarn\r\nConnection: close\r\n"
                      f"Content-Length: {len(text)}\r\n\r\n{text}".encode())
            self.assertEqual(Answer(read_to_end(s)).status, 200)

    def counter(self, name):
        counters = self.counters()
        return counters.get("counters", counters)[name]

    def add(self, name, **how):
        script = Script(**how)
        return script, self.origin.script(name, script)

    def whole(self, answer, size=SIZE):
        self.assertEqual(answer.status, 200)
        got = answer.body
        if answer.fields.get("transfer-encoding") == "chunked":
            got = dechunk(got)
        self.assertEqual(len(got), size)
        self.assertTrue(got == body(size), "other bytes came")

    def gather(self, script, target, *kinds, asked=1):
        """Clients of one fetch, the first its leader; all of them wait for its head."""
        queued, clients = self.counter("req.queued"), []
        script.head.clear()
        for i, kind in enumerate(kinds):
            clients.append(kind(self.tarnd, target))
            if i == 0:
                wait_until(lambda: self.origin.requests[target] == asked, "the origin is asked")
        wait_until(lambda: self.counter("req.queued") == queued + len(kinds) - 1, "they queue")
        return clients

    def test_one_fetch_feeds_all_who_come_in_time(self):
        for framing in ("length", "chunked"):
            script, target = self.add(framing, framing=framing)
            readers = self.gather(script, target, *[Reader] * 8)
            script.head.set()
            for reader in readers:
                self.whole(reader.result())
            self.assertEqual(self.origin.requests[target], 1 + len(script.ranged))
        self.assertEqual(self.counter("resp.truncated"), 0)

    def test_what_was_streamed_is_not_kept(self):
        script, target = self.add("twice")
        self.whole(self.tarnd.ask(target))
        answer = self.tarnd.ask(target)
        self.whole(answer)
        self.assertIn("fwd=uri-miss", answer.fields["cache-status"])
        self.assertNotIn("stored", answer.fields["cache-status"])
        self.assertEqual(self.origin.requests[target], 2)
        self.assertEqual(self.counter("cache.inserts"), 0)

    def fall_behind(self, script, target):
        """A slow reader that is left behind by a fast one; what it got in the end."""
        slow, fast = self.gather(script, target, Slow, Reader)
        script.head.set()
        self.whole(fast.result())
        return slow.rest()

    def cut(self, answer):
        self.assertLess(len(answer.body), SIZE)
        self.assertTrue(body(SIZE).startswith(answer.body))
        self.assertEqual(self.counter("resp.truncated"), 1)

    def test_who_falls_behind_gets_the_rest_of_the_same_version(self):
        script, target = self.add("slow")
        self.whole(self.fall_behind(script, target))
        self.assertEqual(len(script.ranged), 1)
        asked, if_range = script.ranged[0]
        self.assertEqual(if_range, '"v1"')
        self.assertGreater(int(asked[len("bytes="):].split("-")[0]), 0)
        self.assertEqual(self.counter("resp.behind"), 1)
        self.assertEqual(self.counter("fetch.rest"), 1)

    def test_without_a_strong_validator_who_falls_behind_is_cut(self):
        script, target = self.add("weak", etag='W/"v1"')
        self.cut(self.fall_behind(script, target))
        self.assertEqual(script.ranged, [])

    def test_another_version_is_never_joined(self):
        script, target = self.add("changes")
        slow, fast = self.gather(script, target, Slow, Reader)
        script.gate.clear()
        script.head.set()
        wait_until(lambda: self.counter("fetch.windows") == 1, "the window is there")
        script.etag = '"v2"'  # and If-Range is ignored, as some servers do
        script.gate.set()
        self.whole(fast.result())
        self.cut(slow.rest())
        self.assertEqual(len(script.ranged), 1)

    def test_of_an_origin_that_ignores_the_range_what_the_client_has_is_skipped(self):
        for framing in ("length", "chunked"):
            script, target = self.add("whole-" + framing, framing=framing, ranges=False)
            self.whole(self.fall_behind(script, target))
            self.assertEqual(self.origin.requests[target], 2)
        self.assertEqual(self.counter("resp.truncated"), 0)

    def test_all_of_another_version_is_never_joined_either(self):
        script, target = self.add("other", ranges=False)
        slow, fast = self.gather(script, target, Slow, Reader)
        script.gate.clear()
        script.head.set()
        wait_until(lambda: self.counter("fetch.windows") == 1, "the window is there")
        script.etag = '"v2"'
        script.gate.set()
        self.whole(fast.result())
        self.cut(slow.rest())

    def test_a_reader_that_keeps_reading_is_never_cut_by_a_faster_one(self):
        for name, most in (("large", "256KiB"), ("outgrown", "8MiB")):
            self.set_parameter("max_object_size", most)
            script, target = self.add("steady-" + name, framing="chunked", etag=None)
            for kinds in ((Steady, Reader), (Reader, Steady, Steady, Reader)):
                had = self.origin.requests[target]
                clients = self.gather(script, target, *kinds, asked=had + 1)
                script.head.set()
                for client in clients:
                    self.whole(client.result())
                self.assertEqual(self.origin.requests[target], had + 1)
        self.assertEqual(self.counter("resp.behind"), 0)
        self.assertEqual(self.counter("resp.truncated"), 0)

    def test_a_reader_that_stands_still_in_the_kept_part_holds_up_the_others_once(self):
        self.set_parameter("max_object_size", "8MiB")
        script, target = self.add("still", framing="chunked", etag=None)
        slow, fast = self.gather(script, target, Slow, Reader)
        script.head.set()
        self.whole(fast.result())
        self.assertEqual(self.origin.requests[target], 1)
        self.assertLess(len(slow.rest().body), SIZE)
        self.assertEqual(self.counter("resp.truncated"), 1)

    def test_a_client_that_comes_after_max_object_size_was_passed_has_its_own_fetch(self):
        self.set_parameter("max_object_size", "1MiB")
        script, target = self.add("late", framing="chunked", etag=None)
        slow = Slow(self.tarnd, target)
        wait_until(lambda: self.counter("fetch.windows") == 1, "it has outgrown what is kept")
        self.whole(Reader(self.tarnd, target).result())
        self.assertEqual(self.origin.requests[target], 2)
        self.whole(slow.rest())
        self.assertEqual(self.counter("resp.truncated"), 0)

    def test_no_client_joins_a_window_that_a_slow_reader_holds_back(self):
        script, target = self.add("held", etag=None)
        slow, fast = self.gather(script, target, Slow, Reader)
        script.head.set()
        self.wait_while_bytes_come(2)  # the writer has looked, and 10 looks are its patience
        self.whole(Reader(self.tarnd, target).result())
        self.assertEqual(self.origin.requests[target], 2)
        reset(slow.socket)
        self.whole(fast.result())

    def test_a_range_or_head_that_needs_nothing_of_the_window_is_not_waited_for(self):
        self.set_parameter("max_object_size", "1MiB")
        script, target = self.add("needless", framing="chunked", etag=None)
        script.gate.clear()
        leader = Reader(self.tarnd, target)
        wait_until(lambda: self.counter("fetch.bytes") >= PIECE, "a piece is there")
        part = self.tarnd.ask(target, "Range: bytes=100-199")
        self.assertEqual((part.status, part.body), (206, body(SIZE)[100:200]))
        self.assertEqual(self.tarnd.ask(target, method="HEAD").status, 200)
        script.gate.set()
        self.whole(leader.result())
        self.assertEqual(self.origin.requests[target], 1)

    def test_several_ranges_of_what_is_not_kept_are_the_origins_to_answer(self):
        script, target = self.add("ranges")
        for asked in ("-2, 0-0", "0-0, -2"):
            self.whole(self.tarnd.ask(target, "Range: bytes=" + asked))
            self.assertEqual(script.several.pop(), "bytes=" + asked)
        self.assertEqual(self.origin.requests[target], 4)
        self.assertEqual(self.counter("resp.truncated"), 0)

    def test_several_ranges_of_what_found_no_room_are_never_cut(self):
        """A body without a length that comes whole with its head: its length is known by then."""
        self.set_parameter("max_object_size", "24MiB")
        self.set_parameter("transit_buffer", "1MiB")
        _, tiny = self.add("tiny")
        self.origin.scripts[tiny] = lambda handler: handler.wfile.write(
            b"HTTP/1.1 200 OK\r\nCache-Control: max-age=600\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"10\r\n0123456789abcdef\r\n0\r\n\r\n")
        held = []
        asked_for = 0

        def without_room(*fields):
            """The answer where the store had no room for the body. One that was kept makes the next try fuller."""
            nonlocal asked_for
            while len(held) < 40:
                before = self.counter("fetch.windows")
                asked_for += 1
                answer = self.tarnd.ask(f"{tiny}?{asked_for}", *fields)
                if self.counter("fetch.windows") > before:
                    return answer
                _, target = self.add(f"held-{len(held)}", etag=None, size=20 * MI)
                held.append(self.tarnd.connect(receive_buffer=4096))  # a client that reads nothing keeps it there
                held[-1].sendall(request(target))
                time.sleep(0.2)
            raise AssertionError("the store does not become full")

        for asked in ("-2, 0-0", "0-0, -2", "5-6, 3-3, 0-0"):
            answer = without_room("Range: bytes=" + asked)
            self.assertEqual((answer.status, answer.body), (200, b"0123456789abcdef"))
        self.assertEqual(self.counter("resp.truncated"), 0)
        for s in held:
            s.close()

    def test_the_leader_may_leave(self):
        script, target = self.add("leader")
        leader, *others = self.gather(script, target, Slow, Reader, Reader, Reader)
        script.gate.clear()
        script.head.set()
        wait_until(lambda: self.counter("req.coalesced") == 3, "the others have joined")
        reset(leader.socket)
        script.gate.set()
        for other in others:
            self.whole(other.result())
        self.assertEqual(self.origin.requests[target], 1)

    def test_what_was_to_be_kept_goes_on_in_a_window_for_all_who_read_it(self):
        """Unless its length was said: then there is room for it, and it is kept."""
        self.set_parameter("max_object_size", "32MiB")
        for how, said in (("length", True), ("chunked", False)):
            script, target = self.add(f"outgrown-{how}", framing=how)
            script.gate.clear()
            before = self.counter("fetch.bytes")
            readers = [Reader(self.tarnd, target)]
            wait_until(lambda: self.counter("fetch.bytes") >= before + PIECE, "a piece is there")
            readers += [Reader(self.tarnd, target) for _ in range(3)]
            part = Reader(self.tarnd, target, "Range: bytes=100-") if said else None
            asked = 5 if said else 4
            wait_until(lambda: self.counter("sess.open") >= asked, "all have come")
            misses = self.counter("fetch.windows")
            self.set_parameter("max_object_size", "64KiB")
            script.gate.set()
            for one in readers:
                self.whole(one.result())
            if said:
                self.assertEqual(part.result().status, 206)
                self.assertEqual(len(part.result().body), SIZE - 100)
            self.assertEqual(self.counter("fetch.windows"), misses + (not said))
            self.whole(self.tarnd.ask(target))
            self.assertEqual(self.origin.requests[target], 1 if said else 2)
            self.set_parameter("max_object_size", "32MiB")

    def test_when_everybody_has_left_the_fetch_ends(self):
        for framing in ("length", "chunked"):
            script, target = self.add("left-" + framing, framing=framing)
            coalesced = self.counter("req.coalesced")
            slow = self.gather(script, target, Slow, Slow)
            script.head.set()
            wait_until(lambda: self.counter("req.coalesced") > coalesced, "the second has joined")
            for s in slow:
                reset(s.socket)
            wait_until(lambda: script.broken == 1, "the origin is left alone")

    def test_a_head_request_joins_and_asks_nobody(self):
        script, target = self.add("head")
        script.gate.clear()
        reader = Reader(self.tarnd, target)
        wait_until(lambda: self.counter("fetch.windows") == 1, "the window is there")
        answer = self.tarnd.ask(target, method="HEAD")
        self.assertEqual(answer.status, 200)
        self.assertEqual(answer.fields["content-length"], str(SIZE))
        script.gate.set()
        self.whole(reader.result())
        self.assertEqual(self.origin.requests[target], 1)

    def test_a_range_ahead_of_the_window_does_not_wait_for_it(self):
        script, target = self.add("ahead")
        script.gate.clear()
        reader = Reader(self.tarnd, target)
        wait_until(lambda: self.counter("fetch.windows") == 1, "the window is there")
        answer = self.tarnd.ask(target, f"Range: bytes={SIZE - 10}-")
        self.assertEqual(answer.status, 206)
        self.assertEqual(answer.body, body(SIZE)[-10:])
        script.gate.set()
        self.whole(reader.result())

    def test_in_a_full_store_a_client_that_takes_nothing_holds_up_no_other(self):
        self.set_parameter("idle_send_timeout", "10m")
        self.set_parameter("stream_window", "16MiB")
        crowd = []
        for i in range(5):  # windows that no client reads take all the room there is
            script, target = self.add(f"crowd-{i}")
            crowd += self.gather(script, target, Slow, Slow)
            script.head.set()
        self.wait_while_bytes_come(2)
        self.assertGreater(self.counter("storage.used"), 60 * MI)
        self.set_parameter("stream_window", "4MiB")
        script, target = self.add("full")
        slow, fast = self.gather(script, target, Slow, Reader)
        script.head.set()
        self.whole(fast.result())
        for one in crowd:
            reset(one.socket)
        self.whole(slow.rest())

    def test_what_breaks_off_is_cut_for_all(self):
        script, target = self.add("broken")
        script.cut_at = 2 * PIECE
        readers = self.gather(script, target, *[Reader] * 3)
        script.head.set()
        for reader in readers:
            answer = reader.result()
            self.assertLess(len(answer.body), SIZE)
            self.assertTrue(body(SIZE).startswith(answer.body))

    def test_a_purge_ends_joining_and_not_reading(self):
        script, target = self.add("purged")
        script.gate.clear()
        first = Reader(self.tarnd, target)
        wait_until(lambda: self.counter("fetch.windows") == 1, "the window is there")
        with socket.socket(socket.AF_UNIX) as s:
            s.connect(self.tarnd.dir + "/admin.sock")
            text = json.dumps({"url": "http://tarn.test" + target}).encode()
            s.sendall(b"POST /v1/purge HTTP/1.1\r\nHost: tarn\r\nConnection: close\r\n"
                      b"Content-Type: application/json\r\n"
                      b"Content-Length: %d\r\n\r\n" % len(text) + text)
            self.assertEqual(Answer(read_to_end(s)).status, 200)
        second = Reader(self.tarnd, target)
        wait_until(lambda: self.origin.requests[target] == 2, "the origin is asked again")
        script.gate.set()
        self.whole(first.result())
        self.whole(second.result())


def dechunk(data):
    out, at = bytearray(), 0
    while True:
        end = data.index(b"\r\n", at)
        size = int(data[at:end], 16)
        if size == 0:
            return bytes(out)
        out += data[end + 2:end + 2 + size]
        at = end + 2 + size + 2


if __name__ == "__main__":
    PROGRAM = sys.argv.pop(1)
    unittest.main(verbosity=2)
