"""A client of the admin interface."""

import http.client
import json

import wire


def ask(address, method, path, token=None, host=None):
    """Makes one request on a connection of its own. Returns (status, body as text)."""
    connection = http.client.HTTPConnection(*address, timeout=wire.DEADLINE)
    try:
        headers = {"Authorization": "Bearer " + token} if token else {}
        headers.update({"Host": host} if host else {})
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode("utf-8")
    finally:
        connection.close()


def get(address, path):
    """Returns the object in the answer."""
    status, body = ask(address, "GET", path)
    assert status == 200, (path, status, body)
    return json.loads(body)
