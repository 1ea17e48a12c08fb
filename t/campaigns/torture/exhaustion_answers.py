"""The part `answers` of ./dev torture exhaustion: clients of the job queues that ask for long answers
and do not read them."""

import threading
import time

import wire

OUTPUT_MAX = 256 * 1024  # limits.output_buffer
BODIES = 16 << 20  # bytes of all bodies
ASKS = ("peek 1", "list-jobs default all 0 1000", "claim 1000 0 default", "list-tubes", "list-tubes-watched")
P99_SLACK = 0.005  # seconds: a processor that is busy with something else


def percentile(daemon, seconds):
    """The 99th percentile of the time of a put and a delete, in seconds. Both must succeed."""
    times, until = [], time.monotonic() + seconds
    with daemon.job_client(deadline=60) as client:
        while time.monotonic() < until:
            began = time.monotonic()
            number = client.put(b"x" * 100, into="others")
            assert isinstance(number, int), "others are refused: %s" % number
            assert client.ask("delete %d" % number) == "DELETED"
            times.append(time.monotonic() - began)
    return sorted(times)[len(times) * 99 // 100]


def resident(daemon):
    return int(daemon.status_field("VmRSS").split()[0]) * 1024


def unread_answers(start, scale, rng):
    short = scale.unread < 100
    readers, tubes, seconds = (8, 1000, 0.3) if short else (40, 20000, 4)
    daemon = start("counter.threads=2", "jobs.enable=true", "jobs.port=0", "jobs.memory_limit=64M",
                   "limits.output_buffer=%d" % OUTPUT_MAX, admin=True)  # fmt: skip
    made, most = [], 0
    with daemon.job_client(deadline=60) as client:
        for number in range(tubes):
            client.say("watch %06d%s" % (number, "n" * 150))
            assert client.line().startswith("WATCHING")
        for _ in range(16):
            assert isinstance(client.put(b"z" * (BODIES // 16)), int)
        before, at_first = percentile(daemon, seconds), resident(daemon)
        done = threading.Event()

        def attack():
            while not done.is_set():
                made.append(daemon.job_client())
                made[-1].say(rng.choice(ASKS))
                made[-1].say("put 0 0 60 1\r\nx")  # behind the answer
                if len(made) > readers:
                    made.pop(0).close()
                time.sleep(0.005)

        attacker = threading.Thread(target=attack)
        attacker.start()
        try:
            wire.poll(lambda: len(made) == readers, "they have asked", 60)
            during = percentile(daemon, seconds)
            most = resident(daemon) - at_first
        finally:
            done.set()
            attacker.join()
    room = readers * (OUTPUT_MAX + 8 * tubes) + (8 << 20)
    print("  %d clients that read no answer: %.1f MB more memory, %.1f MB allowed; others' 99th percentile:"
          " %.2f -> %.2f ms" % (readers, most / 1e6, room / 1e6, before * 1e3, during * 1e3))  # fmt: skip
    for reader in made:
        reader.close()
    assert most <= room or wire.SLOW, "%d bytes of memory for unread answers" % most
    if not short and not wire.SLOW:
        assert during <= 2 * before + P99_SLACK, "others wait for %.2f ms" % (during * 1e3)
