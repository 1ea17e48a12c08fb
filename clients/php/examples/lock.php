<?php

// At most two at once; a fourth one that asks is told so at once.

declare(strict_types=1);

require __DIR__ . '/../autoload.php';

$client = new Counterd\Client();
try {
    $page = $client->withLock('render:42', fn() => 'the page', workers: 2, queue: 3, timeout: 5);
    echo "rendered $page\n";
} catch (Counterd\Busy | Counterd\QueueFull) {
    echo "an old page from the cache\n";
}
