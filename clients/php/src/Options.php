<?php

declare(strict_types=1);

namespace Counterd;

/**
 * What a client was told: its URL, and the options of its constructor.
 *
 * @internal
 */
final class Options
{
    /** @var list<string> as they are configured: they are hashed for the order of servers */
    public array $servers = [];
    public float $connectTimeout = 1;
    public float $ioTimeout = 10;
    public float $downSeconds = 10;
    public float $idleSeconds = 60;
    public int $idle = 8;
    public int $maxBody = 64 << 20;
    public bool $tls = false;
    public string $tlsCa = '';
    public string $tlsCert = '';
    public string $tlsKey = '';
    public string $tlsName = '';
    private string $text = '';
    private string $binary = '';
    public string $jobs = '';

    /** @param array<mixed> $parameters */
    public function __construct(?string $url, array $parameters)
    {
        $url ??= getenv('COUNTER_URL') ?: 'counter://127.0.0.1';
        if (!preg_match('~^counter://([^/?#@\s]*)/?(?:\?([^#\s]*))?$~D', $url, $parts)) {
            throw new Usage('The URL is not counter://HOST[:PORT][,HOST...][/][?K=V...]: ' . Text::shown($url));
        }
        $given = [];
        foreach (array_filter(explode('&', $parts[2] ?? ''), strlen(...)) as $pair) {
            [$key, $value] = explode('=', $pair, 2) + [1 => ''];
            if (isset($given[$key])) {
                throw new Usage("The URL has the parameter $key twice");
            }
            $given[$key] = rawurldecode($value);
        }
        foreach ($parameters as $key => $value) {
            $given[strtolower((string) preg_replace('/[A-Z]/', '_$0', (string) $key))] = $value;
        }
        foreach ($given as $key => $value) {
            $this->set((string) $key, $value);
        }
        $this->servers = $parts[1] === '' ? [] : explode(',', $parts[1]);
        foreach ($this->servers as $server) {
            self::split($server);
        }
        foreach ([$this->binary, $this->jobs] as $port) {
            if (ctype_digit($port) && ((int) $port < 1 || (int) $port > 65535)) {
                throw new Usage("Not a port: $port");
            }
        }
        $isUnix = preg_grep('/^unix:/', [$this->text, $this->binary, $this->jobs]);
        if ($this->servers === [] && !$isUnix) {
            throw new Usage('The URL has no host');
        }
        if ($this->tls && $isUnix) {
            throw new Usage('TLS is for TCP only: leave out tls, or name no unix socket');
        }
        $this->servers = $this->servers ?: [reset($isUnix)];
    }

    /** @param mixed $value text from a URL, or a value from the constructor */
    private function set(string $key, mixed $value): void
    {
        $name = lcfirst(str_replace('_', '', ucwords($key, '_')));
        $is = is_scalar($value) && match ($key) {
            'connect_timeout', 'io_timeout', 'down_seconds', 'idle_seconds' => Text::isSeconds($value),
            'idle', 'max_body' => (bool) preg_match('/^\d{1,15}$/D', (string) $value),
            'tls' => in_array($value, ['0', '1', 0, 1, true, false], true),
            'tls_ca', 'tls_cert', 'tls_key', 'tls_name' => is_string($value),
            'text' => (bool) preg_match('~^unix:[^\0]+$~D', (string) $value),
            'binary' => (bool) preg_match('~^(\d{1,5}|unix:[^\0]+)$~D', (string) $value),
            'jobs' => (bool) preg_match('~^(\d{1,5}|unix:[^\0]+|[^\s,/]+:\d{1,5})$~D', (string) $value),
            default => throw new Usage('There is no parameter ' . Text::shown($key)),
        };
        if (!$is) {
            throw new Usage("The value of the parameter $key is wrong: " . Text::shown(print_r($value, true)));
        }
        settype($value, gettype($this->$name) === 'double' ? 'float' : gettype($this->$name));
        $this->$name = $value;
    }

    /**
     * Where $protocol of $server is.
     *
     * @return array{string, int} host and port; a unix socket: "unix:PATH" and 0
     */
    public function address(string $protocol, string $server): array
    {
        $chosen = $this->$protocol;
        if (str_starts_with($chosen, 'unix:')) {
            if ($protocol !== 'jobs' && count($this->servers) > 1) {
                throw new Usage("One unix socket for $protocol is not for several servers");
            }
            return [$chosen, 0];
        }
        if ($chosen !== '' && !ctype_digit($chosen)) {
            return self::split($chosen);
        }
        if (str_starts_with($server, 'unix:')) {
            throw new Usage("The URL has no host for its $protocol port");
        }
        [$host, $port] = self::split($server);
        $port = $protocol === 'text' && $port ? $port : (int) $chosen;
        if (!$port && $this->tls) {
            throw new Usage("TLS has no default ports: name the $protocol port in the URL");
        }
        return [$host, $port ?: ['text' => 7531, 'binary' => 11215, 'jobs' => 11300][$protocol]];
    }

    /** What names $protocol of $server in memory that other programs share: where it is, and how it is reached. */
    public function key(string $protocol, string $server): string
    {
        $tls = $this->tls ? md5(serialize([$this->tlsCa, $this->tlsCert, $this->tlsKey, $this->tlsName])) : '';
        return "counterd $protocol " . implode(' ', $this->address($protocol, $server)) . " $server $tls";
    }

    /** @return array{string, int} */
    private static function split(string $server): array
    {
        if (filter_var($server, FILTER_VALIDATE_IP, FILTER_FLAG_IPV6)) {
            return [$server, 0]; // Without brackets, as MediaWiki's settings may have it.
        }
        $is = preg_match('~^(\[[0-9A-Fa-f:.]+\]|[^\[\]:,]+)(?::(\d{1,5}))?$~D', $server, $parts);
        $port = (int) ($parts[2] ?? 0);
        $host = trim($parts[1] ?? '', '[]');
        $isHost = $is && ($parts[1] === $host || filter_var($host, FILTER_VALIDATE_IP, FILTER_FLAG_IPV6));
        if (!$isHost || $port > 65535 || (isset($parts[2]) && !$port)) {
            throw new Usage('Not HOST or HOST:PORT (IPv6 in brackets): ' . Text::shown($server));
        }
        return [$host, $port];
    }
}
