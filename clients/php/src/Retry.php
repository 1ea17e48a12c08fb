<?php

declare(strict_types=1);

namespace Counterd;

/** Thrown by a worker's handler: gives the job back, for another run. */
final class Retry extends \Exception
{
    /**
     * @param float $delay seconds until then, rounded up
     * @throws Usage
     */
    public function __construct(public readonly float $delay = 0)
    {
        NewJob::whole($delay, 'delay');
        parent::__construct('run it again');
    }
}
