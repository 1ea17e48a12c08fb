<?php

// Prints servers.json: names with the order of their servers, as MediaWiki's pool counter client has
// them: by md5 of the server's text and the name, as bytes.
//
//     php clients/stories/make_servers.php > clients/stories/servers.json

declare(strict_types=1);

$lists = [
    ['a:7531', 'b:7531', 'c:7531'],
    ['10.0.0.1', '10.0.0.1:7531', '10.0.0.2'],
    ['pool-1.example', 'pool-2.example', 'pool-3.example', 'pool-4.example', 'pool-5.example', 'pool-6.example'],
    ['[::1]:7531', '127.0.0.1:7531'],
    ['only.example:7531'],
];
$names = [
    'k', 'page 1', 'é', 'page%201', 'enwiki:pcache:idhash:15580374-0!canonical', "tab\there", '0', ' ', "%", '日本語',
    'ArticleView', 'key:with:colons', 'UPPER', 'upper', "e\u{301}", '🐘', '-', '\\', '"quoted"', 'a,b',
    str_repeat('x', 4096),
];
$found = [];
foreach ($lists as $number => $servers) {
    foreach ($number === 0 ? $names : array_slice($names, 0, $number === 4 ? 1 : 6) as $name) {
        $hashes = [];
        foreach ($servers as $server) {
            $hashes[$server] = md5($server . $name);
        }
        asort($hashes, SORT_STRING);
        $found[] = ['name' => $name, 'servers' => $servers, 'order' => array_keys($hashes)];
    }
}
$lines = array_map(fn($one) => json_encode($one, JSON_UNESCAPED_UNICODE | JSON_UNESCAPED_SLASHES), $found);
echo "[\n", implode(",\n", $lines), "\n]\n";
