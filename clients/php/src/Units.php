<?php

declare(strict_types=1);

namespace Counterd;

/** Units of a counter. */
final class Units extends Hold
{
    /** @internal */
    public function __construct(
        Connections $connections,
        Connection $connection,
        public readonly string $name,
        private string $sentName,
        public readonly int $count
    ) {
        parent::__construct($connections, $connection, $name, $connection->server);
    }

    protected function giveUp(Connection $one, bool $ok): bool
    {
        $body = pack('Nna*', $this->count, strlen($this->sentName), $this->sentName);
        [$status, $text] = Wire::binary($one, 0x03, $body, 0, 0x01, 0x22);
        if ($status !== 0) {
            $answer = sprintf('0x%02x %s', $status, $text);
            throw $one->error(Lost::class, "answered $answer: they were not held any more", '', $answer);
        }
        return true;
    }
}
