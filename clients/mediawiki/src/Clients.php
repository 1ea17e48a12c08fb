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
        $conf = $GLOBALS['wgPoolCountClientConf'] ?? null;
        $parameters = [];
        if ($url === null && $conf !== null) {
            // As they are written: the text of a server decides which names it has.
            $url = 'counter://' . implode(',', (array)($conf['servers'] ?? '127.0.0.1'));
            // Both are times to connect: `timeout` counts when the other is not set.
            $timeout = ($conf['connect_timeout'] ?? 0) ?: ($conf['timeout'] ?? 0);
            $parameters = $timeout > 0 ? ['connect_timeout' => (float)$timeout] : [];
        }
        return new Client($url, self::log(...), ...$parameters);
    }

    private static function log(object $event): void
    {
        if (in_array($event->kind, ['down', 'lost', 'retry'], true)) {
            $fields = ['name' => $event->name, 'server' => $event->server, 'error' => $event->error?->getMessage()];
            LoggerFactory::getInstance('Counterd')->warning("$event->kind: {name} at {server}: {error}", $fields);
        }
    }
}
