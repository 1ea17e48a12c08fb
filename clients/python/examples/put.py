"""Puts jobs: one with a key, which is put once however often it is tried, and many at once."""

import counterd

with counterd.Client() as client:
    first = client.put("mail", b"Dear customer", key="welcome-7", delay=60)
    second = client.put("mail", b"Dear customer", key="welcome-7", delay=60)
    print(f"the same job: {second.duplicate and second.id == first.id}")
    puts = client.put_many("mail", [counterd.NewJob(f"letter {n}") for n in range(3)])
    print(f"{len(puts)} more")
    print(
        f"ready: {client.ready('mail')['mail']}, delayed: {client.tube('mail')['current-jobs-delayed']}"
    )
    for state in ("ready", "delayed"):
        client.clear("mail", state)
