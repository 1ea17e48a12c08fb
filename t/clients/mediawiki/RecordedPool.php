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

    private static function note(Status $status): Status
    {
        $names = [self::LOCKED => 'LOCKED', self::DONE => 'DONE', self::TIMEOUT => 'TIMEOUT',
            self::QUEUE_FULL => 'QUEUE_FULL'];
        RecordedJob::note('pool', $status->isOK() ? $names[$status->value] : $status->getErrors()[0]['message']);
        return $status;
    }
}
