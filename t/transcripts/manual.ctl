# The manuals, the sample file and the completions have what the programs have, and nothing else: manual.py.
== manuals, sample and completions
daemon admin.port=0 pool.NAME.max=0
$ ask {admin} <<</api/v1/config | cut -c5- | python3 {top}/t/transcripts/manual.py {top}
