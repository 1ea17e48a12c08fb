<?php

declare(strict_types=1);

namespace Counterd;

/**
 * Questions and answers of the protocols.
 *
 * @internal
 */
final class Wire
{
    public const TEXT_LINE = 16384;
    private const JOBS_LINE = 1024;
    private const DICTIONARY = 1 << 20;
    private const ERRORS = [
        'BAD_SYNTAX' => Usage::class, 'BAD_FORMAT' => Usage::class, 'LINE_TOO_LONG' => Usage::class,
        'TIMEOUT' => Busy::class, 'QUEUE_FULL' => QueueFull::class, 'TUBE_FULL' => QueueFull::class,
        'NO_POOL' => NotFound::class, 'NO_MEMBER' => NotFound::class, 'NOT_FOUND' => NotFound::class,
        'WRONG_KIND' => Wrong::class, 'BAD_VALUE' => Wrong::class, 'DENIED' => Denied::class,
        'OUT_OF_MEMORY' => NoMemory::class, 'READ_ONLY' => ReadOnlyTube::class, 'SHUTTING_DOWN' => Draining::class,
        'DRAINING' => Draining::class, 'JOB_TOO_BIG' => TooBig::class, 'TOO_MANY' => TooMany::class,
        'LOCK_HELD' => TooMany::class, 'ENGINE_AWAY' => EngineAway::class, 'ENGINE_FULL' => EngineAway::class,
        'INTERNAL_ERROR' => Unanswered::class, 'EXPECTED_CRLF' => Malformed::class,
        'BAD_COMMAND' => Unsupported::class, 'UNKNOWN_COMMAND' => Unsupported::class,
    ];
    private const ADVICE = [
        Busy::class => 'try later or wait longer', QueueFull::class => 'try later',
        Unsupported::class => 'it is older than the verb, or no counterd',
    ];
    private const TEXT_ERRORS = ' BAD_COMMAND BAD_SYNTAX LINE_TOO_LONG OUT_OF_MEMORY INTERNAL_ERROR ';
    private const JOBS_ERRORS = ' UNKNOWN_COMMAND BAD_FORMAT OUT_OF_MEMORY INTERNAL_ERROR ';

    /**
     * The error for an answer of the text protocol.
     *
     * @param string $words those that refuse and are answers of this verb
     * @param string $errors the same of those behind "ERROR "
     */
    public static function refusal(Connection $one, string $answer, string $words, string $errors = ''): CounterError
    {
        $isError = str_starts_with($answer, 'ERROR ');
        $word = explode(' ', $answer, 3)[$isError ? 1 : 0];
        return self::error($one, $answer, $word, $isError ? self::TEXT_ERRORS . $errors : $words);
    }

    private static function error(Connection $one, string $answer, string $word, string $allowed): CounterError
    {
        $is = $word !== '' && str_contains(" $allowed ", " $word ");
        $class = $is ? self::ERRORS[$word] : Malformed::class;
        $advice = isset(self::ADVICE[$class]) ? ' (' . self::ADVICE[$class] . ')' : '';
        return $one->error($class, 'answered ' . Text::shown($answer) . $advice, '', $answer);
    }

    /**
     * Asks a question of the binary protocol, and throws the error of a status but those of $good.
     *
     * @return array{int, string} status and body
     */
    public static function binary(Connection $one, int $opcode, string $body, int ...$good): array
    {
        $one->write(pack('CCnNN', 0x90, $opcode, 0, strlen($body), 0) . $body);
        $head = $one->exactly(12);
        $is = unpack('Cmagic/Copcode/Cstatus/Creserved/Nsize/Nopaque', $head);
        if ($is['magic'] !== 0x91 || $is['opcode'] !== $opcode || $is['size'] > 65545 || $is['opaque'] !== 0) {
            throw $one->error(Malformed::class, 'sent something else than an answer', '', $head);
        }
        $text = $one->exactly($is['size']);
        $status = $is['status'];
        if (!in_array($status, $good, true)) {
            $classes = [0x04 => Usage::class, 0x21 => Busy::class, 0x81 => Unsupported::class, 0x82 => NoMemory::class];
            $class = $opcode === 0x02 || $status !== 0x21 ? $classes[$status] ?? Malformed::class : Malformed::class;
            $answer = sprintf('0x%02x %s', $status, $text);
            throw $one->error($class, 'answered ' . Text::shown($answer), '', $answer);
        }
        return [$status, $text];
    }

    /**
     * Asks a question of jobs.
     *
     * @param string $good words of answers that are no errors
     * @param string $refusals words that refuse and are answers of this verb
     * @param bool $hasBody whether the request has a body: a plain beanstalkd would run it
     * @param float $wait how long the server was told to wait
     * @return non-empty-list<string> words of the answer
     */
    public static function jobs(
        Connection $one,
        string $request,
        string $good,
        string $refusals = '',
        bool $hasBody = false,
        float $wait = 0
    ): array {
        if ($one->isKnown) {
            return self::split($one, $one->ask($request, self::JOBS_LINE, "\r\n", $wait), $good, $refusals);
        }
        $one->write("tube default\r\n" . ($hasBody ? '' : $request));
        $one->sent = !$hasBody;
        try {
            self::body($one, self::words($one, 'OK', '', 0), 1, self::DICTIONARY);
        } catch (Refused $error) {
            $one->ended = true; // The answer to the request comes as well.
            throw $error;
        }
        $one->isKnown = true;
        if ($hasBody) {
            $one->write($request);
        }
        return self::words($one, $good, $refusals, $wait);
    }

    /**
     * Reads the line of an answer of jobs.
     *
     * @param ?string $refusals null: it can't be refused, as it is in the midst of an answer
     * @return non-empty-list<string>
     */
    public static function words(Connection $one, string $good, ?string $refusals = '', float $wait = 0): array
    {
        return self::split($one, $one->line(self::JOBS_LINE, "\r\n", $wait), $good, $refusals);
    }

    /** @return non-empty-list<string> */
    private static function split(Connection $one, string $answer, string $good, ?string $refusals): array
    {
        $words = explode(' ', $answer);
        if ($words[0] === '' || !str_contains(" $good ", " $words[0] ")) {
            throw self::error($one, $answer, $words[0], $refusals === null ? '' : self::JOBS_ERRORS . $refusals);
        }
        return $words;
    }

    /** @param list<string> $words the number is that at $index */
    public static function number(Connection $one, array $words, int $index): int
    {
        $word = $words[$index] ?? '';
        $number = (int) $word;
        if ($word !== (string) $number || $number < 0) {
            throw $one->error(Malformed::class, 'sent no number where one belongs', '', implode(' ', $words));
        }
        return $number;
    }

    /** @param list<string> $words the length of the body is that at $index */
    public static function body(Connection $one, array $words, int $index, int $most): string
    {
        $size = self::number($one, $words, $index);
        if ($size > $most) {
            throw $one->error(Malformed::class, "announced more than $most bytes", '', implode(' ', $words));
        }
        $body = $one->exactly($size + 2);
        if (!str_ends_with($body, "\r\n")) {
            throw $one->error(Malformed::class, 'sent a body without an end', '', implode(' ', $words));
        }
        return substr($body, 0, -2);
    }

    /**
     * Reads the body of OK: a dictionary, or a list.
     *
     * @param list<string> $words
     * @return array<string|int> values by key; numbers are integers
     */
    public static function dictionary(Connection $one, array $words): array
    {
        $found = [];
        foreach (explode("\n", rtrim(self::body($one, $words, 1, self::DICTIONARY), "\n")) as $at => $line) {
            if ($at === 0 && $line === '---') {
                continue;
            }
            $is = preg_match('/^(?:- (.*)|("[^"]*"|[^":]+): (.*))$/D', $line, $parts);
            if (!$is) {
                throw $one->error(Malformed::class, 'sent no dictionary', '', $line);
            }
            $value = isset($parts[3]) ? $parts[3] : $parts[1];
            $value = $value === (string) (int) $value ? (int) $value : trim($value, '"');
            if (isset($parts[3])) {
                $found[trim($parts[2], '"')] = $value;
            } else {
                $found[] = $value;
            }
        }
        return $found;
    }
}
