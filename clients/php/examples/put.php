<?php

// Puts a job; while it is ready or delayed, a second one with its key is the same job.

declare(strict_types=1);

require __DIR__ . '/../autoload.php';

$client = new Counterd\Client();
foreach (['Welcome!', 'Welcome again!'] as $body) {
    $put = $client->put('mail', $body, key: 'welcome/7');
    echo $put->duplicate ? "it is there\n" : "put\n";
}
