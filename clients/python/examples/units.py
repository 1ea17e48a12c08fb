"""Units of a limit: at most 10 calls of an interface at once, of which this program makes 3."""

import counterd

with counterd.Client() as client:
    with client.units("api", 3, limit=10) as units:
        print(f"{units.count} calls, {client.usage('api')} in use")
        try:
            client.units("api", 8, limit=10)
        except counterd.Busy:
            print("8 more are too many")
    print(f"{client.usage('api')} in use")
