"""The server of scripts, and the variants of stories, that the stories of clients stand on."""

import os
import socket
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [
    os.path.join(HERE, "..", "system"),
    os.path.join(HERE, "..", "..", "clients", "stories"),
]

import tap  # noqa: E402
import pytest  # noqa: E402

import fake_server  # noqa: E402
import variants  # noqa: E402
import wire  # noqa: E402

HOST = "127.77.%d.%d" % (os.getpid() >> 8 & 255, os.getpid() & 255)
TEXT = (HOST, 7531)


@pytest.fixture
def fake():
    server = fake_server.FakeServer(HOST)
    yield server
    server.close()


def link(address=TEXT, timeout=fake_server.DEADLINE):
    return socket.create_connection(address, timeout=timeout)


def taken(sock):
    """All that comes until the end."""
    data = b""
    while piece := sock.recv(65536):
        data += piece
    return data


def test_a_script_reads_and_sends(fake):
    fake.script(
        {
            "text": [
                [
                    {"read": "A\n"},
                    {"send": "B\n"},
                    {"read": "~C [0-9]+\n"},
                    {"read": 2},
                    {"drip": "xyz", "every": 1},
                    "close",
                ]
            ]
        }
    )
    with link() as sock:
        sock.sendall(b"A\nC 17\nde")
        assert taken(sock) == b"B\nxyz"
    assert fake.heard()["text"] == [["A\n", "C 17\n", "de"]]
    assert fake.problems() == []


def test_a_binary_answer_has_the_opaque_of_its_request(fake):
    fake.script(
        {
            "binary": [
                [
                    {"read": {"hex": "90..0000 00000000 ........"}},
                    {"hex": "9101 @ 00 @3@0"},
                    "close",
                ]
            ]
        }
    )
    with link((HOST, 11215)) as sock:
        sock.sendall(bytes.fromhex("90010000 00000000 01020304"))
        assert taken(sock) == bytes.fromhex("9101 01020304 00 0401")
    assert fake.problems() == []


@pytest.mark.parametrize("sent", [b"B\n", b"AB", b"A\nx"])
def test_what_no_script_says_is_a_problem(fake, sent):
    fake.script({"text": [[{"read": "A\n"}, "end"]]})
    with link() as sock:
        sock.sendall(sent)
        taken(sock)
    assert len(fake.problems()) == 1


def test_a_read_and_an_end_that_do_not_come_are_problems(fake):
    fake.script({"text": [[{"read": "A\n"}], ["end"]], "jobs": [["hello"]]})
    with link(), link():
        wire.poll(lambda: fake.connections("text") == 2, "both are accepted")
        found = fake.problems(0.1)
    assert len(found) == 3 and "'A\\n'" in found[0] + found[1] + found[2]


def test_texts_are_answered_as_often_as_they_come(fake):
    answers = {"a\n": "1\n", "a\nb\n": "2\n"}
    fake.script(
        {"text": [[{"answer": answers}, {"read": "ac\n"}, {"answer": answers, "after": 50}]]}
    )
    with link() as sock:
        for asked, answer in (
            (b"a\n", b"1\n"),
            (b"a\nb\n", b"2\n"),
            (b"a\n", b"1\n"),
            (b"ac\na\n", b"1\n"),
        ):
            sock.sendall(asked)
            assert sock.recv(100) == answer
    assert fake.problems() == []
    assert fake.heard()["text"] == [["a\n", "a\nb\n", "a\n", "ac\n", "a\n"]]


def test_a_script_goes_on_when_the_story_says_so(fake):
    fake.script({"text": [[{"note": "here"}, "go", {"send": "A"}, "go", "close"]]})
    with link() as sock:
        wire.poll(lambda: fake.heard()["text"] == [["here"]], "it waits")
        sock.settimeout(0.1)
        with pytest.raises(TimeoutError):
            sock.recv(1)
        sock.settimeout(fake_server.DEADLINE)
        fake.go()
        assert sock.recv(9) == b"A"
        fake.go()
        assert taken(sock) == b""


def test_a_connection_without_a_script_is_a_problem(fake):
    with link() as sock:
        assert taken(sock) == b""
    assert len(fake.problems()) == 1


def test_refused_stuck_and_reset(fake):
    fake.script({"text": [["reset"], "refuse"], "jobs": ["stuck"]})
    with pytest.raises(ConnectionResetError), link() as sock:  # connect may see it
        taken(sock)
    with pytest.raises(ConnectionRefusedError):
        link()
    with pytest.raises(TimeoutError):
        link((HOST, 11300), 0.2)
    fake.script({"text": [["close"]], "jobs": [["close"]]})
    for address in (TEXT, (HOST, 11300)):
        with link(address) as sock:
            assert taken(sock) == b""
    assert fake.problems() == []


def test_a_stopped_server_closes_and_comes_back(fake):
    fake.script({"text": [[{"stall": 60000}], ["close"]]})
    with link() as sock:
        wire.poll(lambda: fake.connections("text") == 1, "it is accepted")
        fake.stop()
        assert taken(sock) == b""
    assert fake.connections("text") == 0
    fake.start()
    with link() as sock:
        assert taken(sock) == b""


def test_rows_are_put_in(fake):
    story = {
        "story": "s",
        "each": [{"A": 5, "B": "x"}, {"A": None, "B": "y"}],
        "steps": [{"want": "<A>", "do": "<B>-<B>"}],
    }
    assert [v["steps"] for v in variants.variants(story)] == [
        [{"want": 5, "do": "x-x"}],
        [{"want": None, "do": "y-y"}],
    ]
    assert [v["story"] for v in variants.variants(story)] == ["s [1 of 2]", "s [2 of 2]"]


@pytest.mark.parametrize(
    "mode, sent, last",
    [
        ("cut", ["", "41", "41 42", "41 42 0d"], "close"),
        ("stall", ["", "41", "41 42", "41 42 0d"], "end"),
        ("garbage", ["ff ff 0d 0a", "41 ff 0d 0a"], "end"),
    ],
)
def test_an_answer_goes_wrong_at_each_byte(mode, sent, last):
    script = [{"read": "x"}, {"send": "AB\r\n", "spoil": True}, {"read": "y"}]
    found = variants.variants(
        {
            "story": "s",
            "spoil": mode,
            "steps": [{"fake": "stop"}, {"fake": {"jobs": [script, "refuse"]}}],
        }
    )
    assert [v["steps"][1]["fake"]["jobs"][0] for v in found] == [
        [{"read": "x"}, {"hex": one}, last] for one in sent
    ]


if __name__ == "__main__":
    tap.main(__file__)
