<?php

// A member of a pool. To have one: printf 'POOL ADD gpu\nMEMBER ADD gpu g0 /dev/0 type=a100\n' | nc -q1 localhost 7531

declare(strict_types=1);

require __DIR__ . '/../autoload.php';

$client = new Counterd\Client();
$gpu = $client->member('gpu', attrs: ['type' => 'a100'], timeout: 5);
echo "{$gpu->name} is at {$gpu->value}\n";
if ($gpu->isLost()) {
    echo "it was taken away\n";
}
$gpu->release();
