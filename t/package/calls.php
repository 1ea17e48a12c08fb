<?php

// Takes a lock, puts and claims a job. Prints the folder that the library was read from. t/package/inside runs it with
// each way to install the library: php calls.php AUTOLOAD

declare(strict_types=1);

require $argv[1];

function expect(bool $good, string $what): void
{
    if (!$good) {
        fwrite(STDERR, "calls.php: $what\n");
        exit(1);
    }
}

$client = new Counterd\Client();
$lock = $client->lock('calls', workers: 1, timeout: 5);
expect(!$lock->isLost() && $client->usage('calls') === 1, 'the lock is not held');
$lock->release();
$put = $client->put('calls', 'body', key: 'once');
expect($client->put('calls', 'body', key: 'once')->duplicate, 'the key is forgotten');
$jobs = $client->claim(['calls'], timeout: 5);
expect(count($jobs) === 1 && $jobs[0]->id === $put->id && $jobs[0]->body === 'body', 'not the job that was put');
$jobs[0]->ack();
$client->close();
echo dirname((string) (new ReflectionClass($client))->getFileName()), "\n";
