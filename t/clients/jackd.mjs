// Every call of jackd, whose package has no tests: node jackd.mjs PORT. JACKD names its folder.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const JackdClient = createRequire(import.meta.url)(process.env.JACKD);
const port = Number(process.argv[2]);

async function connected(options) {
    const client = new JackdClient(options);
    await client.connect({ host: "127.0.0.1", port });
    return client;
}

const refused = (promise, why) => assert.rejects(promise, (e) => String(e.message + e.response).includes(why));
const entries = (yaml) => Object.fromEntries(yaml.trim().split("\n").slice(1).map((row) => row.split(": ")));
const names = (yaml) => yaml.trim().split("\n").slice(1).map((row) => row.replace("- ", ""));

const producer = await connected();
const worker = await connected();
assert.equal(producer.isConnected(), true);

// Tubes.
assert.equal(await producer.use("jackd"), "jackd");
assert.equal(await producer.listTubeUsed(), "jackd");
assert.equal(await producer.getCurrentTube(), "jackd");
assert.equal(await worker.watch("jackd"), 2);
assert.equal(await worker.ignore("default"), 1);
await refused(worker.ignore("jackd"), "NOT_IGNORED");
assert.deepEqual(names(await worker.listTubesWatched()), ["jackd"]);
assert.deepEqual(names(await worker.listTubes()), ["default", "jackd"]);

// Bodies: text, line ends, objects. jackd itself refuses empty ones.
for (const body of ["plain", "a\r\nb\r\n", "\u{1f331} bean", { job: [1, "two"] }]) {
    const id = await producer.put(body);
    const payload = Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
    assert.deepEqual(await worker.reserve(), { id, payload });
    await worker.delete(id);
}
await refused(producer.put("x".repeat(65536)), "JOB_TOO_BIG");

// Many commands without waiting for answers.
const ids = await Promise.all(Array.from({ length: 200 }, (_, i) => producer.put(`job ${i}`, { priority: 7 })));
for (const [i, id] of ids.entries()) { // jackd mixes up bodies that arrive together
    assert.deepEqual(await worker.reserve(), { id, payload: Buffer.from(`job ${i}`) });
}
await Promise.all(ids.map((id) => worker.delete(id)));

// Moves of one job.
const late = await producer.put("late", { priority: 9, ttr: 60 });
const first = await producer.put("first", { priority: 1, ttr: 60 });
assert.equal((await producer.peekReady()).id, first);
assert.equal((await worker.reserveWithTimeout(0)).id, first);
assert.equal((await worker.reserveJob(late)).payload.toString(), "late");
await refused(producer.reserveJob(late), "NOT_FOUND");
await refused(worker.reserveWithTimeout(0), "TIMED_OUT");
await worker.touch(first);
await worker.release(first, { priority: 5, delay: 100 });
assert.equal((await producer.peekDelayed()).id, first);
const job = entries(await producer.statsJob(first));
assert.deepEqual([job.state, job.pri], ["delayed", "5"]);
await producer.kickJob(first);
assert.equal((await worker.reserve()).id, first);
await worker.bury(first, 3);
assert.equal((await producer.peekBuried()).id, first);
assert.equal(await producer.kick(10), 1);
await refused(producer.peekBuried(), "NOT_FOUND");
assert.equal((await producer.peek(late)).payload.toString(), "late");
await worker.release(late);

// Statistics. pauseTube is left out: jackd forgets the end of its line.
await refused(producer.statsTube("nowhere"), "NOT_FOUND");
const tube = entries(await producer.statsTube("jackd"));
assert.deepEqual([tube["current-jobs-ready"], tube["current-using"], tube["current-watching"]], ["2", "1", "1"]);

// Ends.
for (const id of [first, late]) await producer.delete(id);
for (const call of ["delete", "peek", "statsJob", "kickJob", "touch"]) await refused(producer[call](first), "NOT_FOUND");
await refused(producer.release(first), "NOT_FOUND");
await refused(producer.bury(first, 0), "NOT_FOUND");
const stats = entries(await producer.stats());
assert.equal(stats["max-job-size"], "65535");
await worker.disconnect();
await producer.close();
