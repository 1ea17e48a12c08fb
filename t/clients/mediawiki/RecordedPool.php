<?php

declare(strict_types=1);

use Counterd\MediaWiki\PoolCounter;

/** Notes what came of each wait for a lock. */
class RecordedPool extends PoolCounter
{
    /** @inheritDoc */
    public function acquireForMe($timeout = null)
    {
        return self::note(parent::acquireForMe($timeout));
    }

    /** @inheritDoc */
    public function acquireForAnyone($timeout = null)
    {
        return self::note(parent::acquireForAnyone($timeout));
    }

    /** Waits until so many clients wait for locks, or the server has gone; at most 20 s. */
    public static function awaitWaiters(int $count): void
    {
        ['host' => $host, 'port' => $port] = parse_url(getenv('T_MW_URL'));
        $end = microtime(true) + 20;
        while ($count > 0 && microtime(true) < $end && ($socket = @fsockopen($host, $port))) {
            fwrite($socket, "STATS FULL\n");
            while (($line = fgets($socket)) && !preg_match("/^waiting_workers: (\d+)/", $line, $found)) {
            }
            if (!$line || $found[1] >= $count) {
                return;
            }
            usleep(20000);
        }
    }

    private static function note(Status $status): Status
    {
        $names = [self::LOCKED => 'LOCKED', self::DONE => 'DONE', self::TIMEOUT => 'TIMEOUT',
            self::QUEUE_FULL => 'QUEUE_FULL'];
        RecordedJob::note('pool', $status->isOK() ? $names[$status->value] : $status->getErrors()[0]['message']);
        return $status;
    }
}
