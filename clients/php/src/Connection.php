<?php

declare(strict_types=1);

namespace Counterd;

/**
 * One connection: a stream that never blocks, waited for with deadlines of the monotonic clock.
 *
 * A connection that nothing refers to any more is closed.
 *
 * @internal
 */
final class Connection
{
    private const PIECE = 65536;
    /** Name, pool or tube of the call: for errors. */
    public string $target = '';
    /** True when a byte of the request was given to the system. */
    public bool $sent = false;
    /** True when the other side has ended it. */
    public bool $ended = false;
    /** True when a hold or jobs keep it after the call. */
    public bool $kept = false;
    /** Jobs of a claim that are not finished. */
    public int $jobs = 0;
    /** True when the end of one of them was refused, so that it may be reserved still. */
    public bool $spoiled = false;
    /** True when the server is known to have the verbs with bodies. */
    public bool $isKnown = false;
    public int $since = 0;
    public readonly string $key;
    private string $in = '';
    private int $until = PHP_INT_MAX;
    private int $io;
    private bool $isPlain;
    /** Text of the warning that PHP made last. */
    private static string $warning = '';
    /** Keeps a warning of this file from the program. */
    private static \Closure $keep;

    /** @param resource $stream */
    private function __construct(private $stream, public readonly string $server, string $protocol, Options $options)
    {
        $this->io = (int) ($options->ioTimeout * 1e9);
        $this->key = "$protocol $server";
        $this->isPlain = !$options->tls;
    }

    /**
     * Connects, with TLS if the options say so.
     *
     * @param int $until when waiting ends in any case
     * @throws Unreachable
     */
    public static function open(Options $options, string $protocol, string $server, string $target, int $until): self
    {
        self::$keep ??= static function (int $number, string $text, string $file): bool {
            if ($file !== __FILE__) {
                return false;
            }
            $noise = '/^[a-z_]+\(\): |Send of \d+ bytes failed with errno=\d+ /';
            self::$warning = (string) preg_replace($noise, '', $text);
            return true;
        };
        [$host, $port] = $options->address($protocol, $server);
        $addresses = $port ? self::resolve($host, $port) : ["unix://" . str_replace('unix:@', "unix:\0", $host)];
        $addresses = str_replace(["unix://unix:"], ['unix://'], $addresses);
        $until = min($until, hrtime(true) + (int) ($options->connectTimeout * 1e9));
        $left = count($addresses);
        // The resolver does not say that descriptors lack; this does.
        $pair = static fn() => stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        $reason = $addresses || self::quietly($pair) ? 'the name has no address' : self::$warning;
        foreach ($addresses as $one) {
            $now = hrtime(true);
            $reason = self::dial($options, $one, $host, $now + intdiv($until - $now, $left--), $stream);
            if ($reason === '') {
                return new self($stream, $server, $protocol, $options);
            }
        }
        $where = $port ? "$host port $port" : $host;
        throw new Unreachable("No connection to $where: $reason", $server, $target, reason: Text::shown($reason));
    }

    /** @return list<string> */
    private static function resolve(string $host, int $port): array
    {
        if (filter_var($host, FILTER_VALIDATE_IP)) {
            return ['tcp://' . (str_contains($host, ':') ? "[$host]" : $host) . ":$port"];
        }
        if (!function_exists('socket_addrinfo_lookup')) {
            return array_map(static fn($ip) => "tcp://$ip:$port", gethostbynamel($host) ?: []);
        }
        $found = self::quietly(static fn() => socket_addrinfo_lookup($host, (string) $port, [
            'ai_socktype' => SOCK_STREAM,
        ]));
        $uris = [];
        foreach ($found ?: [] as $info) {
            $address = socket_addrinfo_explain($info)['ai_addr'];
            $uris[] = isset($address['sin6_addr']) ? "tcp://[{$address['sin6_addr']}]:$port"
                : "tcp://{$address['sin_addr']}:$port";
        }
        return $uris;
    }

    /**
     * @param ?resource $stream the stream, when there is one
     * @return string why not; empty: it is connected
     */
    private static function dial(Options $options, string $uri, string $host, int $until, &$stream): string
    {
        $ssl = [
            'peer_name' => $options->tlsName ?: $host, 'verify_peer' => true, 'verify_peer_name' => true,
            'allow_self_signed' => false, 'SNI_enabled' => true,
        ] + array_filter([
            'cafile' => $options->tlsCa, 'local_cert' => $options->tlsCert, 'local_pk' => $options->tlsKey,
        ]);
        $context = stream_context_create(['socket' => ['tcp_nodelay' => true], 'ssl' => $ssl]);
        $isUnix = str_starts_with($uri, 'unix:');
        $flags = STREAM_CLIENT_CONNECT | STREAM_CLIENT_ASYNC_CONNECT;
        do {
            $number = 0;
            $why = '';
            $stream = self::quietly(static function () use ($uri, &$number, &$why, $flags, $context) {
                return stream_socket_client($uri, $number, $why, 0, $flags, $context);
            });
            if ($stream) {
                break;
            }
            // The queue of a unix socket is full: there is no event to wait for.
            usleep($number === 11 ? 2000 : 0);
        } while ($number === 11 && hrtime(true) < $until);
        if (!$stream) {
            if ($number === 0 && ($why === '' || $why === 'Failed to create unix socket')) {
                return 'no socket could be made, perhaps there are too many open files';
            }
            return $why ?: self::$warning ?: 'not connected';
        }
        stream_set_blocking($stream, false);
        stream_set_read_buffer($stream, 0);
        stream_set_write_buffer($stream, 0);
        if (!self::wait($stream, $until, true)) {
            return self::$warning ?: 'no answer to the connect'; // It warns of too many open files.
        }
        if ($isUnix) {
            return '';
        }
        $socket = function_exists('socket_import_stream') ? socket_import_stream($stream) : false;
        if (stream_socket_get_name($stream, true) === false) {
            $number = $socket ? socket_get_option($socket, SOL_SOCKET, SO_ERROR) : 0;
            return $number ? socket_strerror($number) : 'connection refused';
        }
        if ($socket) {
            socket_set_option($socket, SOL_SOCKET, SO_KEEPALIVE, 1);
            // Linux: TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT, TCP_USER_TIMEOUT (ms)
            foreach (PHP_OS === 'Linux' ? [4 => 10, 5 => 5, 6 => 3, 18 => 25000] : [] as $option => $value) {
                socket_set_option($socket, SOL_TCP, $option, $value);
            }
        }
        return $options->tls ? self::secure($stream, $until) : '';
    }

    /** @param resource $stream */
    private static function secure($stream, int $until): string
    {
        $method = STREAM_CRYPTO_METHOD_TLSv1_2_CLIENT | STREAM_CRYPTO_METHOD_TLSv1_3_CLIENT;
        do {
            self::$warning = '';
            $is = self::quietly(static fn() => stream_socket_enable_crypto($stream, true, $method));
            if ($is === true) {
                return '';
            }
            // It may have more to write instead, and PHP does not say so: it is asked again after 20 ms.
            $is === 0 && self::wait($stream, min($until, hrtime(true) + 20000000), false);
        } while ($is === 0 && hrtime(true) < $until);
        return $is === 0 ? 'TLS was not agreed in time' : (self::$warning ?: 'TLS failed');
    }

    /** Begins a request. */
    public function begin(string $target, int $until = PHP_INT_MAX): void
    {
        $this->target = $target;
        $this->until = $until;
        $this->sent = $this->kept = false;
    }

    /**
     * Sends a request and reads a line. Most are small, and their answers come in one piece: few steps for those.
     *
     * @throws Failed
     */
    public function ask(string $request, int $limit, string $end, float $wait = 0): string
    {
        if (strlen($request) > 4096 || $this->in !== '' || $this->until !== PHP_INT_MAX) {
            $this->write($request);
            return $this->line($limit, $end, $wait);
        }
        $until = hrtime(true) + $this->io + (int) ($wait * 1e9);
        $stream = $this->stream;
        $read = [$stream];
        $none = null;
        $data = '';
        try {
            set_error_handler(self::$keep);
            $count = fwrite($stream, $request);
            $this->sent = $count > 0;
            $wait += $this->io / 1e9;
            $left = (int) $wait;
            $isSent = $count === strlen($request);
            if ($isSent && stream_select($read, $none, $none, $left, (int) (($wait - $left) * 1e6))) {
                $data = fread($stream, 8192);
            }
        } finally {
            restore_error_handler();
        }
        if ($data !== '' && $data !== false) {
            $size = strlen($data) - strlen($end);
            if (strpos($data, $end) === $size && $size <= $limit) {
                return substr($data, 0, $size);
            }
            $this->in = $data;
        } elseif (!$isSent) {
            $this->write($count ? substr($request, $count) : $request);
        }
        return $this->line($limit, $end, 0, $until);
    }

    /**
     * Sends, and reads meanwhile. Returns early when an answer is there before all is sent.
     *
     * @throws Failed
     */
    public function write(string $data): void
    {
        $size = strlen($data);
        $at = 0;
        $mark = self::PIECE;
        $until = hrtime(true) + $this->io;
        while ($at < $size) {
            $stream = $this->stream;
            $piece = $size <= self::PIECE && $at === 0 ? $data : substr($data, $at, self::PIECE);
            try {
                set_error_handler(self::$keep);
                $count = fwrite($stream, $piece);
            } finally {
                restore_error_handler();
            }
            if ($count) {
                $this->sent = true;
                $at += $count;
                if ($at >= $mark) {
                    $mark = $at + self::PIECE;
                    $until = hrtime(true) + $this->io;
                }
                continue;
            }
            if ($count === 0 && !self::wait($stream, min($until, $this->until), true, true)) {
                throw $this->error(Unanswered::class, 'took nothing more of the request in time', self::$warning);
            }
            $this->receive();
            if (str_contains($this->in, "\n") || strlen($this->in) > 16384) {
                $this->ended = true;
                return;
            }
            if ($count === false || $this->ended) {
                $this->ended = true;
                throw $this->error(Unanswered::class, 'closed the connection', self::$warning);
            }
        }
    }

    /**
     * Reads a line of at most $limit bytes. It begins within $wait seconds and the time for an answer.
     *
     * @throws Failed
     */
    public function line(int $limit, string $end, float $wait = 0, int $until = 0): string
    {
        $hasBegun = false;
        while (($at = strpos($this->in, $end)) === false && strlen($this->in) < $limit + strlen($end)) {
            $until = $until ?: hrtime(true) + $this->io + (int) ($wait * 1e9);
            if (!$hasBegun && $this->in !== '') {
                $hasBegun = true;
                $until = hrtime(true) + $this->io;
            }
            $this->fill($until);
        }
        if ($at === false || $at > $limit) {
            throw $this->error(Malformed::class, "sent a line of over $limit bytes", '', $this->in);
        }
        $line = substr($this->in, 0, $at);
        $this->in = substr($this->in, $at + strlen($end));
        return $line;
    }

    /** Reads $count bytes. @throws Failed */
    public function exactly(int $count): string
    {
        $until = $mark = 0;
        while (($had = strlen($this->in)) < $count) {
            if ($had >= $mark) {
                $mark = $had + self::PIECE;
                $until = hrtime(true) + $this->io;
            }
            $this->fill($until, self::PIECE);
        }
        $bytes = substr($this->in, 0, $count);
        $this->in = substr($this->in, $count);
        return $bytes;
    }

    /** True when it is open, and no bytes came that nobody asked for. Does not wait. */
    public function isFresh(bool $isThorough = false): bool
    {
        if ($this->ended || $this->in !== '') {
            return false;
        }
        if ($this->isPlain) {
            // A connection that was reset shows it when it is written to, or in feof.
            $this->ended = stream_socket_recvfrom($this->stream, 1, STREAM_PEEK) !== false
                || ($isThorough && feof($this->stream));
        } else {
            $this->receive();
        }
        return !$this->ended && $this->in === '';
    }

    /** True when it must not be used for another request. */
    public function hasMore(): bool
    {
        return $this->ended || $this->in !== '';
    }

    public function close(): void
    {
        if ($this->stream) {
            fclose($this->stream);
        }
        $this->stream = null;
        $this->ended = true;
    }

    /**
     * @template T of CounterError
     * @param class-string<T> $class
     * @return T
     */
    public function error(string $class, string $what, string $reason = '', string $answer = ''): CounterError
    {
        $for = $this->target === '' ? '' : ', asked for ' . Text::shown($this->target);
        $text = "The server {$this->server}$for, $what" . ($reason === '' ? '' : ": $reason");
        [$target, $answer] = [$this->target, Text::shown($answer)];
        return new $class($text, $this->server, $target, $answer, Text::shown($reason), $this->sent);
    }

    /** Waits for more bytes. @throws Unanswered */
    private function fill(int $until, int $size = 8192): void
    {
        $had = strlen($this->in);
        do {
            if (!self::wait($this->stream, min($until, $this->until), false)) {
                throw $this->error(Unanswered::class, 'did not answer in time', self::$warning);
            }
            $this->receive($size);
        } while (strlen($this->in) === $had && !$this->ended);
        if ($this->ended && strlen($this->in) === $had) {
            throw $this->error(Unanswered::class, 'closed the connection');
        }
    }

    /** Takes what has come. */
    private function receive(int $size = 8192): void
    {
        try {
            set_error_handler(self::$keep);
            $data = fread($this->stream, $size);
        } finally {
            restore_error_handler();
        }
        if ($data === '' || $data === false) {
            $this->ended = feof($this->stream);
        } else {
            $this->in .= $data;
        }
    }

    /**
     * Waits until the stream can be read, or written. Signals do not end it. False: not in time, or the warning.
     *
     * @param resource $stream
     */
    private static function wait($stream, int $until, bool $write, bool $both = false): bool
    {
        do {
            $left = max(0, $until - hrtime(true));
            $read = $write && !$both ? null : [$stream];
            $written = $write ? [$stream] : null;
            $none = null;
            self::$warning = '';
            try {
                set_error_handler(self::$keep);
                $us = intdiv($left, 1000) + 1;
                $count = stream_select($read, $written, $none, intdiv($us, 1000000), $us % 1000000);
            } finally {
                restore_error_handler();
            }
            if ($count === false && str_contains(self::$warning, '[4]')) {
                self::$warning = ''; // A signal: EINTR
            } elseif ($count === false) {
                break;
            }
        } while (!$count && $left > 0);
        return (bool) $count;
    }

    private static function quietly(\Closure $call): mixed
    {
        try {
            set_error_handler(self::$keep);
            return $call();
        } finally {
            restore_error_handler();
        }
    }
}
