<?php

// Runs the jobs of the tube "mail", and stops when it has run one. Else SIGTERM and SIGINT stop it.

declare(strict_types=1);

require __DIR__ . '/../autoload.php';

$client = new Counterd\Client();
$worker = new Counterd\Worker($client, ['mail'], function (Counterd\Job $job) use (&$worker): void {
    foreach (str_split($job->body, 4) as $part) {
        if (!$job->keep()) {
            return; // It is another's by now.
        }
        echo $part;
    }
    echo "\n";
    $worker->stop();
});
$worker->run();
