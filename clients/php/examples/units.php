<?php

// Three of ten units for the time of a call.

declare(strict_types=1);

require __DIR__ . '/../autoload.php';

$client = new Counterd\Client();
$units = $client->units('api', 3, limit: 10);
try {
    echo "{$client->usage('api')} of 10 in use\n";
} finally {
    $units->release();
}
echo "{$client->usage('api')} of 10 in use\n";
