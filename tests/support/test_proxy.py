"""The proxy between a client of the standard library and its HTTP server."""

import http.client
import http.server
import threading

import pytest

from tests.support.proxy import FaultProxy
from tests.support.waiting import wait_until


@pytest.fixture
def server():
    """A server that answers with the body it received; `received` has every path."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_PUT(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            server.received.append((self.path, body))
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.received = []
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with FaultProxy(f"http://127.0.0.1:{server.server_port}") as proxy:
        yield server, proxy
    server.shutdown()
    server.server_close()


def put(proxy, path, body=b"content", timeout=60):
    client = http.client.HTTPConnection(proxy.url.removeprefix("http://"), timeout=timeout)
    client.request("PUT", path, body)
    answer = client.getresponse()
    return answer.status, answer.read()


def test_the_chosen_request_fails_and_the_others_do_not(server):
    server, proxy = server
    proxy.add("lose answer", "/b", nth=2)
    proxy.add("lose request", "/c")
    proxy.add("unavailable", "/d", method="PUT")
    proxy.add("cut answer", "/e")
    assert put(proxy, "/b") == (200, b"content")
    for path, error in (("/b", http.client.HTTPException), ("/c", http.client.HTTPException)):
        with pytest.raises((error, ConnectionError)):
            put(proxy, path)
    assert put(proxy, "/d")[0] == 503
    with pytest.raises((http.client.HTTPException, ConnectionError)):
        put(proxy, "/e", b"x" * 5000)
    assert put(proxy, "/c") == (200, b"content")
    assert [path for path, _ in server.received] == ["/b", "/b", "/e", "/c"]
    assert (proxy.seen("/b"), proxy.seen("/b", "lose answer")) == (2, 1)


def test_a_held_request_reaches_the_server_after_the_client_has_given_up(server):
    server, proxy = server
    proxy.add("hold request", "/late")
    with pytest.raises(TimeoutError):
        put(proxy, "/late", timeout=0.1)
    assert put(proxy, "/late", b"newer") == (200, b"newer")
    assert server.received == [("/late", b"newer")]
    proxy.release()
    wait_until(lambda: len(server.received) == 2)
    assert server.received[1] == ("/late", b"content")
