"""
Plays the stories over sockets: against the daemon, in a mode each (daemon.py); and those with the matching tags against
Debian's poolcounterd, yrmcdsd and beanstalkd. Each story has a server of its own.

Of the daemon's that run.py plays, too, T_SEED draws a quarter each time, unless arguments choose some.
`./dev torture stories --daemon` plays them all in all modes.
"""

import concurrent.futures
import os
import random
import shlex
import sys
import threading

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "system"))
import tap  # noqa: E402
import pytest  # noqa: E402

import backends  # noqa: E402
import daemon  # noqa: E402
import player  # noqa: E402
import servers  # noqa: E402
from story import read_folder  # noqa: E402

PEERS = {"poolcounterd": servers.Poolcounterd, "yrmcds": servers.Yrmcdsd, "beanstalkd": servers.Beanstalkd}
STORIES = read_folder(HERE)
SEED = int(os.environ.get("T_SEED") or random.randrange(2**32))
os.environ["T_SEED"] = str(SEED)  # pytest imports this file again
CHANCE = random.Random(SEED)
ONE_AT_A_TIME = threading.Lock()  # these make certificates, and choose addresses


def cases():
    """Pairs of a place and a story: of the daemon, one mode for each story."""
    chosen = sys.argv[1:]
    for story in STORIES:
        modes = [mode for mode in daemon.MODES if daemon.bears(story, mode)]
        if "--all" in chosen:
            yield from ((mode, story) for mode in modes)
        elif modes and (chosen or "fake" not in story.servers or CHANCE.random() < 0.25):
            yield CHANCE.choice(modes), story
        yield from ((server, story) for server in PEERS if server in story.servers)


CASES = list(cases())
print("# stories: T_SEED=%d" % SEED, flush=True)


def play(place, story):
    """Plays a story in its place. Returns False if there is no such server."""
    if place in PEERS:
        if not PEERS[place].is_installed():
            return False
        with ONE_AT_A_TIME:
            process = PEERS[place](**story.settings)
        backend = backends.SocketBackend(process)
        try:
            player.play(story, backend)
            process.stop()
        finally:
            backend.kill()
            process.kill()
        return True
    if not servers.have_counterd():
        return False
    with ONE_AT_A_TIME:
        backend = daemon.Daemon(story, place, SEED)
    try:
        player.play(story, backend, backend)
    except AssertionError as e:
        log = backend.running.log[-3000:] if backend.running else ""
        again = "T_SEED=%d ./dev test t/scenario/real.py --all -k %s" % (SEED, shlex.quote(place + "-" + story.name))
        raise AssertionError("%s\nagain: %s\n%s" % (e, again, log)) from None
    finally:
        backend.kill()
    return True


@pytest.fixture(scope="module")
def played(request):
    """Plays of all chosen cases, some at a time: most of them wait. One by one for ./dev mutants, which notes what each does."""
    chosen = [(item.callspec.params["place"], item.callspec.params["story"]) for item in request.session.items]
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        if os.environ.get("MUTANT_RECORD"):
            yield lambda case: pool.submit(play, *case)
        else:
            yield {case: pool.submit(play, *case) for case in chosen}.get


@pytest.mark.parametrize("place,story", CASES, ids=lambda x: getattr(x, "name", x))
def test_story(place, story, played):
    if not played((place, story)).result():
        pytest.skip("there is no %s" % place)


if __name__ == "__main__":
    arguments = [word for word in sys.argv[1:] if word != "--all"]
    try:
        tap.main(__file__, arguments=arguments)
    finally:
        daemon.Daemon.forget()
