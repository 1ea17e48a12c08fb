<?php

declare(strict_types=1);

namespace Counterd;

/** Members of a pool: the first one's data, and `all` of them. */
final class Member extends Hold
{
    public readonly string $pool;
    public readonly string $name;
    public readonly ?string $value;
    /** @var array<string> by name */
    public readonly array $attrs;
    public readonly int $fence;

    /**
     * @internal
     * @param non-empty-list<Taken> $all
     */
    public function __construct(Connections $connections, Connection $connection, public readonly array $all)
    {
        $first = $all[0];
        parent::__construct($connections, $connection, $first->pool, $connection->server);
        [$this->pool, $this->name, $this->value] = [$first->pool, $first->name, $first->value];
        [$this->attrs, $this->fence] = [$first->attrs, $first->fence];
    }

    protected function giveUp(Connection $one, bool $ok): bool
    {
        $lines = '';
        foreach ($this->all as $member) {
            $lines .= "RETURN {$member->fence} " . ($ok ? "ok\n" : "fail\n");
        }
        $one->write($lines);
        $answers = [];
        foreach ($this->all as $_) {
            $answers[] = $one->line(Wire::TEXT_LINE, "\n");
        }
        foreach ($answers as $answer) {
            $this->check($one, $answer, 'RETURNED', 'GONE', 'NOT_TAKEN');
        }
        return true;
    }
}
