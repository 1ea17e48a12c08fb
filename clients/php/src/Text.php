<?php

declare(strict_types=1);

namespace Counterd;

/**
 * Checks what is sent, and shows what came.
 *
 * @internal
 */
final class Text
{
    public const NAME = '~^[A-Za-z0-9+/;.$_()][A-Za-z0-9+/;.$_()-]{0,199}$~D';

    /** The first 200 bytes, controls escaped. */
    public static function shown(string $text): string
    {
        return substr(addcslashes(substr($text, 0, 200), "\0..\37\\\177"), 0, 200);
    }

    public static function isSeconds(mixed $value): bool
    {
        return is_numeric($value) && $value >= 0 && $value <= 1e6;
    }

    /** @throws Usage */
    public static function seconds(float $value, string $what): float
    {
        if (!($value >= 0 && $value <= 1e6)) {
            throw new Usage("$what is not 0 to 1,000,000 seconds: $value");
        }
        return $value;
    }

    /** @throws Usage */
    public static function range(int $value, int $least, int $most, string $what): int
    {
        if ($value < $least || $value > $most) {
            throw new Usage("$what is not $least to $most: $value");
        }
        return $value;
    }

    /** A value of which the server is told. @throws Usage */
    public static function given(mixed $value, string $key): string
    {
        if (!is_string($value) && !is_int($value)) {
            throw new Usage('Neither text nor an integer: ' . self::shown($key) . ' is ' . get_debug_type($value));
        }
        return (string) $value;
    }

    /** The name of a tube. @throws Usage */
    public static function tube(string $name): string
    {
        if (!preg_match(self::NAME, $name)) {
            throw new Usage('Not a name of a tube (1 to 200 of A-Za-z0-9-+/;.$_()): ' . self::shown($name));
        }
        return $name;
    }

    /** A word of at most $most bytes without space, CR, LF, NUL and $no. @throws Usage */
    public static function word(string $word, int $most, string $what, string $no = ''): string
    {
        $size = strlen($word);
        if ($size === 0 || $size > $most || strcspn($word, " \r\n\0$no") !== $size) {
            throw new Usage("Not a $what (1 to $most bytes, no space, line end or NUL): " . self::shown($word));
        }
        return $word;
    }

    /** Seconds for the text protocol, cut to milliseconds. */
    public static function milliseconds(float $seconds): string
    {
        if ($seconds === floor($seconds)) {
            return (string) (int) $seconds;
        }
        $ms = (int) ($seconds * 1000 + 1e-6);
        return $ms % 1000 ? rtrim(sprintf('%d.%03d', intdiv($ms, 1000), $ms % 1000), '0') : (string) intdiv($ms, 1000);
    }
}
