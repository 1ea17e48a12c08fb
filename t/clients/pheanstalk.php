<?php
// Every call of pheanstalk 4, whose Debian package has no tests: php pheanstalk.php PORT
require 'Pheanstalk/autoload.php';

use Pheanstalk\Exception;
use Pheanstalk\JobId;
use Pheanstalk\Pheanstalk;

function same($got, $expected, string $what): void
{
    if ($got !== $expected) {
        throw new RuntimeException(
            sprintf('%s: %s, not %s', $what, var_export($got, true), var_export($expected, true))
        );
    }
}

function fails(string $class, Closure $call, string $what): void
{
    try {
        $call();
    } catch (Exception $e) {
        if ($e instanceof $class) {
            return;
        }
        throw new RuntimeException($what . ': ' . get_class($e) . ', not ' . $class);
    }
    throw new RuntimeException($what . ' is not refused');
}

$port = (int) $argv[1];
$producer = Pheanstalk::create('127.0.0.1', $port);
$worker = Pheanstalk::create('127.0.0.1', $port);

// Tubes.
same($producer->listTubeUsed(true), 'default', 'the tube at the start');
$producer->useTube('php');
same($producer->listTubeUsed(true), 'php', 'the used tube');
$worker->watch('php')->watch('more');
same($worker->listTubesWatched(true), ['default', 'php', 'more'], 'watched, in order');
$worker->watchOnly('php');
same($worker->listTubesWatched(true), ['php'], 'watched alone');
fails(Exception\ServerException::class, fn() => $worker->ignore('php'), 'ignoring the only tube');
same($producer->listTubes(), ['default', 'php'], 'tubes');

// Bodies.
$bytes = implode('', array_map('chr', range(0, 255)));
foreach (['plain', "a\r\nb\r\n", '', $bytes, str_repeat('x', 65535)] as $body) {
    $put = $producer->put($body);
    $job = $worker->reserve();
    same([$job->getId(), $job->getData()], [$put->getId(), $body], 'a job');
    $worker->delete($job);
}
fails(Exception\JobTooBigException::class, fn() => $producer->put(str_repeat('x', 65536)), 'a large job');

// Moves of one job.
$late = $producer->put('late', 9, 0, 60);
$first = $producer->put('first', 1, 0, 60);
same($producer->peekReady()->getId(), $first->getId(), 'the next');
same($producer->peek($late)->getData(), 'late', 'a look at a job');
same($worker->reserveWithTimeout(0)->getId(), $first->getId(), 'the first by priority');
same($worker->reserveWithTimeout(0)->getId(), $late->getId(), 'the second');
same($worker->reserveWithTimeout(0), null, 'no more jobs');
$worker->touch($first);
$worker->release($first, 5, 100);
same($producer->peekDelayed()->getId(), $first->getId(), 'the delayed one');
$job = $producer->statsJob($first);
same([(string) $job->state, (int) $job->pri, (string) $job->tube], ['delayed', 5, 'php'], 'its statistics');
$producer->kickJob($first);
same($worker->reserve()->getId(), $first->getId(), 'the kicked one');
$worker->bury($first, 3);
same($producer->peekBuried()->getId(), $first->getId(), 'the buried one');
same($producer->kick(10), 1, 'kicked');
same([$producer->peekBuried(), $producer->peekDelayed()], [null, null], 'nothing is buried or delayed');
fails(Exception\JobNotFoundException::class, fn() => $producer->kickJob($first), 'a kick of a ready job');
$worker->release($late);

// Pauses and statistics.
$producer->pauseTube('php', 100);
same($worker->reserveWithTimeout(0), null, 'a paused tube');
same((int) $producer->statsTube('php')->pause, 100, 'the pause');
$producer->resumeTube('php');
fails(Exception\ServerException::class, fn() => $producer->pauseTube('nowhere', 1), 'a pause of no tube');
fails(Exception\ServerException::class, fn() => $producer->statsTube('nowhere'), 'statistics of no tube');
$tube = $producer->statsTube('php');
same((string) $tube->name, 'php', 'the name'); // pheanstalk would leave quotes
same([(int) $tube['current-jobs-ready'], (int) $tube['current-watching']], [2, 1], 'the numbers of a tube');

// Ends.
$producer->delete($first);
$producer->delete($late);
fails(Exception\JobNotFoundException::class, fn() => $producer->delete($first), 'a second delete');
fails(Exception\JobNotFoundException::class, fn() => $producer->touch($first), 'a touch of no job');
fails(Exception\ServerException::class, fn() => $producer->peek(new JobId($first->getId())), 'peek');
fails(Exception\ServerException::class, fn() => $producer->statsJob($first), 'statistics of no job');
fails(Exception\ServerException::class, fn() => $worker->release($first), 'a release of no job');
fails(Exception\ServerException::class, fn() => $worker->bury($first), 'burying no job');
$producer->withWatchedTube('php', fn($client) => same($client->reserveWithTimeout(0), null, 'nothing'));
$producer->withUsedTube('more', fn($client) => same($client->put('x')->getData(), 'x', 'put elsewhere'));
same($producer->listTubeUsed(true), 'php', 'the used tube again');
same($producer->listTubesWatched(true), ['php', 'default'], 'the watched tubes again, and php');
same((int) $producer->stats()['max-job-size'], 65535, 'statistics');
