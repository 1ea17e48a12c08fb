<?php

declare(strict_types=1);

namespace Counterd;

/** A job to be put. */
final class NewJob
{
    private string $line;

    /**
     * @param int $priority 0 to 4,294,967,295: smaller ones come first
     * @param float $delay seconds before it is ready, rounded up
     * @param float $ttr seconds that a run may take, rounded up
     * @param ?string $key of a ready or delayed job there is one with this key: 1 to 64 characters of a tube's name
     * @param int|float|null $at when it was enqueued, in Unix time: what was run later with its key has done it
     * @param ?array{string, int|float} $root signature and time of the root job: newer ones replace older ones
     * @param ?int $tries how often it may be run; 1: no second time
     * @throws Usage
     */
    public function __construct(
        public readonly string $body,
        int $priority = 1024,
        float $delay = 0,
        float $ttr = 60,
        public readonly ?string $key = null,
        int|float|null $at = null,
        ?array $root = null,
        ?int $tries = null
    ) {
        Text::range($priority, 0, 4294967295, 'priority');
        $delay = self::whole($delay, 'delay');
        $ttr = self::whole($ttr, 'ttr');
        $size = strlen($body);
        $this->line = "$priority $delay $ttr $size";
        if ($key !== null) {
            $this->line .= ' key=' . self::word($key, 'key');
        }
        if ($at !== null) {
            $this->line .= ' at=' . self::time($at);
        }
        if ($root !== null) {
            if (!is_string($root[0] ?? null) || !is_numeric($root[1] ?? null) || is_string($root[1])) {
                throw new Usage('root is not a pair of signature and Unix time');
            }
            $this->line .= ' root=' . self::word($root[0], 'root') . ':' . self::time($root[1]);
        }
        if ($tries !== null) {
            $this->line .= ' tries=' . Text::range($tries, 0, 4294967295, 'tries');
        }
    }

    /** @internal */
    public function __toString(): string
    {
        return "{$this->line}\r\n{$this->body}\r\n";
    }

    /** Seconds as a whole number, rounded up. @throws Usage */
    public static function whole(float $seconds, string $what): int
    {
        if (!($seconds >= 0 && $seconds <= 4294967295)) {
            throw new Usage("$what is not 0 to 4,294,967,295 seconds: $seconds");
        }
        return (int) ceil($seconds);
    }

    private static function word(string $word, string $what): string
    {
        if (strlen($word) > 64 || !preg_match(Text::NAME, $word)) {
            throw new Usage("$what is not 1 to 64 of A-Za-z0-9-+/;.\$_(): " . Text::shown($word) . '; pass a hash');
        }
        return $word;
    }

    private static function time(int|float $time): string
    {
        if (!($time >= 0 && $time <= 1e12)) {
            throw new Usage("Not a Unix time: $time");
        }
        return is_int($time) ? (string) $time : sprintf('%.3F', $time);
    }
}
