<?php

declare(strict_types=1);

namespace Counterd\MediaWiki;

use Counterd\Client;
use MediaWiki\Logger\LoggerFactory;

/** Makes the clients of counterd, one for each URL in a process. */
final class Clients
{
    /** @var array<string, Client> */
    private static array $clients = [];

    /**
     * Returns the client of a URL. It connects to nothing before it is used.
     *
     * @param string|null $url null: $wgCounterdUrl, else the servers of $wgPoolCountClientConf, else the library's
     *     default
     * @throws \Counterd\Usage if the URL is wrong
     */
    public static function get(?string $url = null): Client
    {
        return self::$clients[$url ?? ''] ??= self::make($url);
    }

    private static function make(?string $url): Client
    {
        $url ??= $GLOBALS['wgCounterdUrl'] ?? null;
        $parameters = [];
        $conf = $GLOBALS['wgPoolCountClientConf'] ?? null;
        if ($url === null && $conf !== null) {
            $url = self::urlOf((array)($conf['servers'] ?? ['127.0.0.1']));
            // Both are times to connect: `timeout` is the one that counts when the other is not set.
            $timeout = ($conf['connect_timeout'] ?? 0) ?: ($conf['timeout'] ?? 0);
            $parameters = $timeout > 0 ? ['connect_timeout' => (float)$timeout] : [];
        }
        return new Client($url, self::log(...), ...$parameters);
    }

    /** @param string[] $servers as in $wgPoolCountClientConf; their text decides which server has which name */
    private static function urlOf(array $servers): string
    {
        $isBareIpv6 = static fn (string $server): bool => substr_count($server, ':') > 1 && $server[0] !== '[';
        return 'counter://' . implode(
            ',',
            array_map(static fn (string $server) => $isBareIpv6($server) ? "[$server]" : $server, $servers)
        );
    }

    private static function log(object $event): void
    {
        if (in_array($event->kind, ['down', 'lost', 'retry'], true)) {
            LoggerFactory::getInstance('Counterd')->warning(
                '{kind}: {name} at {server}: {error}',
                ['kind' => $event->kind, 'name' => $event->name, 'server' => $event->server, 'error' => $event->error]
            );
        }
    }
}
