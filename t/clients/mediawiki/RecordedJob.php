<?php

declare(strict_types=1);

/**
 * A job that notes its run in the file $T_MW_RUNS. Its parameters: `sleep`, seconds; `kill`, end the runner by
 * SIGKILL; `fail`, end badly; `removeDuplicates`.
 */
class RecordedJob extends Job implements GenericParameterJob
{
    public function __construct(array $params)
    {
        parent::__construct('recorded', $params);
        $this->removeDuplicates = !empty($params['removeDuplicates']);
    }

    /** Adds a line: words, the process, the time. */
    public static function note(string ...$words): void
    {
        $line = implode(' ', $words) . ' ' . getmypid() . ' ' . sprintf('%.3f', microtime(true)) . "\n";
        file_put_contents(getenv('T_MW_RUNS'), $line, FILE_APPEND);
    }

    public function run(): bool
    {
        self::note('run', $this->getType(), (string)($this->params['n'] ?? '-'));
        usleep((int)(1e6 * ($this->params['sleep'] ?? 0)));
        if (!empty($this->params['kill'])) {
            posix_kill(getmypid(), SIGKILL);
        }
        return empty($this->params['fail']);
    }
}
