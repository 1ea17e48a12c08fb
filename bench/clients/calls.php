<?php

/**
 * The same as calls.py, in PHP: `calls.php SUBJECT TEXT_PORT JOBS_PORT REDIS_PORT [CA]`. SUBJECT: php (the library),
 * bare-php (streams with the same bytes), pheanstalk.
 */

declare(strict_types=1);

const BODY_BYTES = 100;

[, $name, $text, $jobs] = $argv;
$body = str_repeat('x', BODY_BYTES);

function check(bool $isSo): void
{
    if (!$isSo) {
        throw new RuntimeException('a wrong answer');
    }
}

function cpu(): float
{
    $used = getrusage();
    return $used['ru_utime.tv_sec'] + $used['ru_stime.tv_sec']
        + ($used['ru_utime.tv_usec'] + $used['ru_stime.tv_usec']) / 1e6;
}

function connected(string $port)
{
    $context = stream_context_create(['socket' => ['tcp_nodelay' => true]]);
    $stream = stream_socket_client("tcp://127.0.0.1:$port", $errno, $text, 1, STREAM_CLIENT_CONNECT, $context);
    stream_set_timeout($stream, 10);
    return $stream;
}

switch ($name) {
    case 'php':
        require getenv('COUNTERD_PHP') . '/autoload.php';
        $client = new Counterd\Client(
            "counter://127.0.0.1:$text?jobs=$jobs" . (isset($argv[5]) ? "&tls=1&tls_ca=$argv[5]" : '')
        );
        $calls = [
            'lock' => fn() => $client->lock('bench')->release(),
            'put' => fn($tube) => $client->put($tube, $body),
            'claim' => fn($tube) => $client->claim([$tube], timeout: 0)[0]->ack(),
        ];
        break;
    case 'bare-php':
        $locks = connected($text);
        $queue = connected($jobs);
        $calls = [
            'lock' => function () use ($locks): void {
                fwrite($locks, "ACQ4ME bench 1 101 10.000\n");
                check(fgets($locks) === "LOCKED\n");
                fwrite($locks, "RELEASE bench\n");
                check(fgets($locks) === "RELEASED\n");
            },
            'put' => function ($tube) use ($queue, $body): void {
                fwrite($queue, "put-into $tube 1024 0 60 100\r\n$body\r\n");
                check(str_starts_with(fgets($queue), 'INSERTED '));
            },
            'claim' => function ($tube) use ($queue): void {
                fwrite($queue, "claim 1 0 $tube\r\n");
                check(fgets($queue) === "CLAIMED 1\r\n");
                $words = explode(' ', fgets($queue));
                stream_get_contents($queue, (int) $words[2] + 2);
                fwrite($queue, "ack $words[1] $words[3]\r\n");
                check(fgets($queue) === "DELETED\r\n");
            },
        ];
        break;
    case 'pheanstalk':
        require '/usr/share/php/Pheanstalk/autoload.php';
        $queue = Pheanstalk\Pheanstalk::create('127.0.0.1', (int) $jobs);
        $using = $watching = null;
        $calls = [
            'put' => function ($tube) use ($queue, $body, &$using): void {
                if ($using !== $tube) {
                    $queue->useTube($using = $tube);
                }
                $queue->put($body, 1024, 0, 60);
            },
            'claim' => function ($tube) use ($queue, &$watching): void {
                if ($watching !== $tube) {
                    $queue->watchOnly($watching = $tube);
                }
                $queue->delete($queue->reserveWithTimeout(0));
            },
        ];
        break;
}
echo "{}\n";
while (($line = fgets(STDIN)) !== false) {
    [$call, $count, $tube] = explode(' ', trim($line));
    $run = $calls[$call];
    [$used, $begin] = [cpu(), hrtime(true)];
    for ($i = 0; $i < $count; $i++) {
        $run($tube);
    }
    echo json_encode(['seconds' => (hrtime(true) - $begin) / 1e9, 'cpu' => cpu() - $used]), "\n";
}
