<?php

declare(strict_types=1);

namespace Counterd;

/** A lock that is held, or word that another has done the work (`done`): then nothing is held. */
final class Lock extends Hold
{
    /** @internal */
    public function __construct(
        Connections $connections,
        ?Connection $connection,
        public readonly string $name,
        private string $sentName,
        private bool $isShared,
        public readonly bool $done,
        string $server
    ) {
        parent::__construct($connections, $connection, $name, $server);
    }

    protected function giveUp(Connection $one, bool $ok): bool
    {
        if (!$ok && $this->isShared) {
            return false; // A RELEASE would tell all waiters that the work is done.
        }
        $answer = $one->ask("RELEASE {$this->sentName}\n", Wire::TEXT_LINE, "\n");
        if ($answer !== 'RELEASED') {
            $this->check($one, $answer, 'RELEASED', 'NOT_LOCKED');
        }
        return true;
    }
}
