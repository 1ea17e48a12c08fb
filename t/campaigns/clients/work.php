<?php

/**
 * A worker or producer of the campaign, in PHP: `work.php ROLE URL FILE SETTINGS`. ROLE: work, produce.
 * The same as work.py; a long handler keeps its job itself.
 */

declare(strict_types=1);

use Counterd\Bury;
use Counterd\Client;
use Counterd\Failed;
use Counterd\NewJob;
use Counterd\Retry;
use Counterd\Worker;

require getenv('COUNTERD_PHP') . '/autoload.php';

[, $role, $url, $path, $settings] = $argv;
$settings = json_decode($settings, true);
if (isset($settings["file"])) {
    $settings = json_decode(file_get_contents($settings["file"]), true);
}
$file = fopen($path, 'a');
stream_set_write_buffer($file, 0);

function now(): float
{
    return hrtime(true) / 1e9;
}

function note(string $what, array $values = []): void
{
    global $file;
    fwrite($file, json_encode(['e' => $what, 't' => now()] + $values) . "\n");
}

$handler = function ($job): void {
    $of = ['id' => $job->id, 'token' => $job->token];
    $words = explode(' ', $job->body);
    [$label, $plan] = $words;
    note('start', $of + ['tries' => $job->tries, 'tube' => $job->tube, 'label' => $label]);
    $looks = [];
    $until = now() + (float) ($words[2] ?? 0);
    while (($at = now()) < $until) {
        $lost = !$job->keep();
        if ($lost) {
            note('lost', $of + ['looks' => $looks]);
            return;
        }
        $looks[] = round($at, 3);
        usleep(20000);
    }
    $how = match ($plan) {
        'raise', 'retry' => $job->tries === 1 ? $plan : 'ok',
        'bury' => 'bury',
        default => 'ok',
    };
    note('end', $of + ['how' => $how, 'looks' => $looks]);
    match ($how) {
        'raise' => throw new RuntimeException('as planned'),
        'retry' => throw new Retry(1),
        'bury' => throw new Bury(),
        default => null,
    };
};

function produce(Client $client, array $settings): void
{
    foreach ($settings['jobs'] as $rows) {
        [$label, $tube, $plan, $key] = $rows[0];
        $labels = array_column($rows, 0);
        $keyed = !in_array(null, array_column($rows, 3), true);
        while (true) {
            $asked = now();
            try {
                if (count($rows) === 1) {
                    $puts = [$client->put($tube, "$label $plan", ttr: $settings['ttr'], key: $key)];
                } else {
                    $puts = $client->putMany($tube, array_map(
                        fn($row) => new NewJob("$row[0] $row[2]", ttr: $settings['ttr'], key: $row[3]),
                        $rows
                    ));
                }
                note('put', ['labels' => $labels, 'ids' => array_map(fn($put) => $put->id, $puts),
                    'duplicates' => array_map(fn($put) => $put->duplicate, $puts), 'asked' => $asked]);
                break;
            } catch (Failed $e) {
                note('failed', ['labels' => $labels, 'error' => $e::class, 'sent' => $e->sent, 'asked' => $asked]);
                if ($e->sent && !$keyed) {
                    break;
                }
                usleep(100000);
            }
        }
        usleep((int) (-log(mt_rand(1, 1000000) / 1e6) * $settings['pause'] * 1e6));
    }
    note('over');
}

try {
    $client = new Client($url);
    if ($role === 'produce') {
        produce($client, $settings);
    } else {
        note('over', ['nacked' => (new Worker($client, $settings['tubes'], $handler))->run()]);
    }
} catch (Throwable $e) {
    note('crash', ['text' => (string) $e]);
    throw $e;
}
