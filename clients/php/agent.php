<?php

declare(strict_types=1);

// The agent of the stories for PHP: makes the calls that come as JSON lines, and says what came of them.

use Counterd\{Bury, Client, CounterError, Event, Hold, Job, NewJob, Retry, Worker};

require __DIR__ . '/autoload.php';

/** The error of a body. */
final class Boom extends Exception
{
}

final class Agent
{
    /** @var array<mixed> what calls gave, by handle */
    private array $kept = [];
    /** @var array<string> how bodies that wait are to end, by handle */
    private array $ends = [];

    public function run(): void
    {
        self::say(['agent' => 'php', 'can' => ['fork', 'php', 'scope', 'worker']]);
        while ($this->take()) {
        }
    }

    /** Takes a command, if there is one before the time is over. */
    private function take(?int $microseconds = null): bool
    {
        $read = [STDIN];
        $none = [];
        if ($microseconds !== null && !@stream_select($read, $none, $none, 0, $microseconds)) {
            return true;
        }
        $line = fgets(STDIN);
        if ($line !== false) {
            self::say($this->answer(json_decode($line, true, 64, JSON_THROW_ON_ERROR)));
        }
        return $line !== false || !feof(STDIN);
    }

    private function answer(array $command): array
    {
        $command += ['args' => [], 'as' => '', 'of' => 'client', 'id' => null];
        try {
            $value = $this->call($command['do'], self::decoded($command['args']), $command['of'], $command['as']);
            return ['id' => $command['id'], 'value' => $value];
        } catch (CounterError $e) {
            $error = ['error' => self::name($e)] + get_object_vars($e);
        } catch (Boom) {
            $error = ['error' => 'Boom'];
        } catch (\Throwable $e) {
            $error = ['error' => 'other', 'text' => (string) $e];
        }
        return ['id' => $command['id']] + $error;
    }

    private function call(string $do, array $args, string $of, string $as): mixed
    {
        if ($do === 'open') {
            $tell = static fn(Event $e) => self::say(
                ['event' => $e->kind, 'error' => $e->error ? self::name($e->error) : null] + get_object_vars($e)
            );
            $url = $args['url'] ?? null;
            unset($args['url']);
            $this->kept[$as ?: 'client'] = new Client($url, $tell, ...$args);
            return null;
        }
        $on = $this->kept[$of] ?? null;
        switch ($do) {
            case 'lock':
            case 'units':
            case 'member':
            case 'claim':
                $value = $this->kept[$as] = $on->$do(...$args);
                foreach (is_array($value) ? $value : [] as $i => $job) {
                    $this->kept["$as.$i"] = $job;
                }
                return self::shown($value);
            case 'put_many':
                $jobs = array_map(static fn(array $job) => new NewJob(...$job), $args['jobs']);
                return self::shown($on->putMany($args['tube'], $jobs));
            case 'tube':
                return $on->tube($args['name'], ...($args['settings'] ?? []));
            case 'ready':
                $found = $on->ready(...$args);
                return array_map(static fn($name, $count) => [(string) $name, $count], array_keys($found), $found);
            case 'list_jobs':
                return self::shown(iterator_to_array($on->listJobs(...$args), false));
            case 'nack':
                return ['buried' => (is_array($on) ? $on[0] : $on)->nack(...$args)];
            case 'lost':
                return (is_array($on) ? $on[0] : $on)->isLost();
            case 'drop':
                unset($this->kept[$of], $on);
                $this->kept = array_filter($this->kept, static fn($at) => !str_starts_with($at, "$of."), 2);
                gc_collect_cycles();
                return null;
            case 'scope':
                $name = $args['args']['name'] ?? $args['args']['target'];
                unset($args['args']['name'], $args['args']['target']);
                $body = function (Hold $hold) use ($args, $as): void {
                    $this->kept[$as] = $hold;
                    $waits = in_array($args['body'], ['wait', 'stay'], true);
                    $how = $waits ? $this->waited('inside', $as) : $args['body'];
                    $how === 'ok' ?: throw new Boom();
                };
                $on->{'with' . ucfirst($args['call'])}($name, ...$args['args'], body: $body);
                return null;
            case 'go':
                $this->ends[$of] = $args['end'];
                return null;
            case 'fork':
                return $this->forked($args['then']);
            case 'worker':
                return $this->worked($on, $args, $as);
            case 'servers_for':
                return Client::serversFor(...$args);
            default:
                return self::shown((is_array($on) ? $on[0] : $on)->$do(...$args));
        }
    }

    /** Waits for `go`, up to 100 s. */
    private function waited(string $event, string $handle, ?Job $job = null): string
    {
        $event === '' ?: self::say(['event' => $event, 'of' => $handle]);
        unset($this->ends[$handle]);
        for ($i = 0; $i < 2000 && !isset($this->ends[$handle]) && ($job?->keep() ?? true); $i++) {
            $this->take(50000) ?: exit(0);
        }
        return $this->ends[$handle] ?? 'ok';
    }

    private function forked(array $then): array
    {
        [$ours, $theirs] = stream_socket_pair(STREAM_PF_UNIX, STREAM_SOCK_STREAM, 0);
        if (pcntl_fork() === 0) {
            fwrite($theirs, json_encode(array_map($this->answer(...), $then)) . "\n");
            exit(0);
        }
        fclose($theirs);
        $line = (string) fgets($ours);
        pcntl_wait($status);
        return json_decode($line, true) ?? [];
    }

    private function worked(Client $client, array $args, string $as): int
    {
        $tubes = $args['tubes'];
        $signals = $args['signals'] ?? true;
        if (isset($args['backoff'])) {
            $args['backoff'] = static fn() => (float) $args['backoff'];
        }
        unset($args['tubes'], $args['signals'], $args['concurrency']);
        $handler = function (Job $job) use ($as): void {
            $run = ['of' => $as, 'id' => $job->id, 'tries' => $job->tries, 'body' => ['hex' => bin2hex($job->body)]];
            self::say(['event' => 'run'] + $run);
            [$what, $number] = explode(' ', $job->body) + [1 => '0'];
            $until = hrtime(true) + (float) $number * 1e9;
            while ($what === 'sleep' && hrtime(true) < $until && $job->keep()) {
                $this->take(50000) ?: exit(0);
            }
            $end = $what === 'wait' ? $this->waited('', $as, $job) : 'ok';
            self::say(['event' => 'ran', 'lost' => $job->isLost()] + $run);
            match (true) {
                $what === 'bury' => throw new Bury(),
                $what === 'retry' => throw new Retry((float) $number),
                $what === 'raise' || $end === 'fail' => throw new Boom(),
                default => null,
            };
        };
        return (new Worker($client, $tubes, $handler, ...$args))->run($signals);
    }

    private static function shown(mixed $value): mixed
    {
        if (is_string($value)) {
            return mb_check_encoding($value, 'UTF-8') ? $value : ['hex' => bin2hex($value)];
        }
        if (!is_array($value) && !is_object($value)) {
            return $value;
        }
        $shown = array_map(self::shown(...), is_array($value) ? $value : get_object_vars($value));
        foreach (is_object($value) ? array_keys($shown) : [] as $key) {
            $shown[$key] = match ($key) {
                'fence', 'token' => (string) $shown[$key],
                'body' => $value->body === null ? null : ['hex' => bin2hex($value->body)],
                'attrs' => (object) $shown[$key],
                default => $shown[$key],
            };
        }
        return $shown;
    }

    private static function decoded(mixed $value): mixed
    {
        if (!is_array($value)) {
            return $value;
        }
        return array_keys($value) === ['hex'] ? hex2bin($value['hex']) : array_map(self::decoded(...), $value);
    }

    /** The name of an error in all languages. */
    private static function name(\Throwable $error): string
    {
        $name = substr(strrchr('\\' . $error::class, '\\'), 1);
        return $name === 'ReadOnlyTube' ? 'ReadOnly' : $name;
    }

    private static function say(array $what): void
    {
        fwrite(STDOUT, json_encode($what, JSON_INVALID_UTF8_SUBSTITUTE | JSON_UNESCAPED_SLASHES) . "\n");
    }
}

(new Agent())->run();
