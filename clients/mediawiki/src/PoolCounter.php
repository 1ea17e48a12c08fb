<?php

declare(strict_types=1);

namespace Counterd\MediaWiki;

use Counterd\Busy;
use Counterd\CounterError;
use Counterd\Lock;
use Counterd\Lost;
use Counterd\QueueFull;
use MediaWiki\PoolCounter\PoolCounter as MediaWikiPoolCounter;
use MediaWiki\Status\Status;

/**
 * A lock of counterd for work that MediaWiki does not want to do several times at once: the `class` of an entry of
 * $wgPoolCounterConf. If no server can be asked, MediaWiki does the work without a lock.
 */
class PoolCounter extends MediaWikiPoolCounter
{
    private ?Lock $lock = null;

    /** Public, as MediaWiki's factory calls it: with an entry of $wgPoolCounterConf, its key, and what to lock. */
    public function __construct(array $conf, string $type, string $key)
    {
        parent::__construct($conf, $type, $key);
    }

    /** @inheritDoc */
    public function acquireForMe($timeout = null)
    {
        return $this->acquire(false, $timeout);
    }

    /** @inheritDoc */
    public function acquireForAnyone($timeout = null)
    {
        return $this->acquire(true, $timeout);
    }

    /** @inheritDoc */
    public function release()
    {
        $lock = $this->lock;
        if ($lock === null) {
            return Status::newGood(self::NOT_LOCKED);
        }
        $this->lock = null;
        $this->onRelease();
        try {
            $lock->release();
            return Status::newGood(self::RELEASED);
        } catch (Lost) {
            return Status::newGood(self::NOT_LOCKED);
        } catch (CounterError $e) {
            return Status::newFatal('pool-servererror', $e->getMessage());
        }
    }

    /** @param float|int|null $timeout seconds; null: that of the configuration */
    private function acquire(bool $shared, $timeout): Status
    {
        $status = $this->precheckAcquire();
        if (!$status->isGood()) {
            return $status;
        }
        if ($this->lock !== null) {
            return Status::newGood(self::LOCK_HELD);
        }
        try {
            $lock = Clients::get()->lock(
                $this->key,
                workers: (int)$this->workers,
                queue: (int)$this->maxqueue,
                timeout: (float)($timeout ?? $this->timeout),
                shared: $shared
            );
        } catch (Busy) {
            return Status::newGood(self::TIMEOUT);
        } catch (QueueFull) {
            return Status::newGood(self::QUEUE_FULL);
        } catch (CounterError $e) {
            return Status::newFatal('pool-servererror', $e->getMessage());
        }
        if ($lock->done) {
            return Status::newGood(self::DONE);
        }
        $this->lock = $lock;
        $this->onAcquire();
        return Status::newGood(self::LOCKED);
    }
}
