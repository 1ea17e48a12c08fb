# Every call of beaneater, whose Debian package has no tests: ruby beaneater.rb PORT
require "beaneater"

def same(got, expected, what)
  raise "#{what}: #{got.inspect}, not #{expected.inspect}" unless got == expected
end

def within(what, seconds = 20)
  ends = Process.clock_gettime(Process::CLOCK_MONOTONIC) + seconds
  until yield
    raise "#{what}: not within #{seconds} s" if Process.clock_gettime(Process::CLOCK_MONOTONIC) > ends
    sleep 0.01
  end
end

def fails(kind, what)
  yield
rescue kind
  nil
else
  raise "#{what} is not refused"
end

address = "127.0.0.1:#{ARGV.fetch(0)}"
producer = Beaneater.new(address)
worker = Beaneater.new(address)

# Tubes.
tube = producer.tubes["ruby"]
producer.tubes.use("ruby")
same(producer.tubes.used.name, "ruby", "the used tube")
worker.tubes.watch("ruby", "more")
same(worker.tubes.watched.map(&:name), %w[default ruby more], "watched, in order")
worker.tubes.ignore("more")
worker.tubes.watch!("ruby")
same(worker.tubes.watched.map(&:name), %w[ruby], "watched alone")
fails(Beaneater::NotIgnoredError, "ignoring the only tube") { worker.tubes.ignore("ruby") }
same(producer.tubes.all.map(&:name), %w[default ruby], "tubes")
same(producer.tubes.map(&:name), %w[default ruby], "each tube")

# Bodies.
["plain", "a\r\nb\r\n", "", (0..255).to_a.pack("C*"), "x" * 65_535].each do |body|
  put = tube.put(body)
  same(put[:status], "INSERTED", "the answer to a put")
  job = worker.tubes.reserve
  same(job.id, put[:id], "the id")
  same(job.body.b, body.b, "the body")
  job.delete
end
fails(Beaneater::JobTooBigError, "a large job") { tube.put("x" * 65_536) }

# Priorities, and moves of one job.
late_id = tube.put("late", pri: 9, ttr: 60)[:id]
first_id = tube.put("first", pri: 1, ttr: 60)[:id]
same(tube.peek(:ready).id, first_id, "the next")
first = worker.tubes.reserve(0)
late = worker.tubes.reserve(0)
same([first.id, late.id], [first_id, late_id], "order by priority")
fails(Beaneater::TimedOutError, "a reserve without jobs") { worker.tubes.reserve(0) }
first.touch
same([first.reserved, first.reserved?, first.pri, first.ttr, first.delay], [true, true, 1, 60, 0], "the job")
same(first.tube, "ruby", "its tube")
first.release(pri: 5, delay: 100)
same(tube.peek(:delayed).id, first_id, "the delayed one")
same([first.stats.state, first.stats.pri, first.stats.releases], ["delayed", 5, 1], "the released one")
first.kick
same(worker.tubes.reserve.id, first_id, "the kicked one")
worker.jobs.find(first_id).then { |found| same(found.body, "first", "a look at a job") }
first = nil
worker.close # its jobs come back, in order of priority
worker = Beaneater.new(address)
worker.tubes.watch!("ruby")
within("both jobs come back") { tube.stats.current_jobs_ready == 2 }
first = worker.tubes.reserve
same(first.id, first_id, "the first of those that came back")
first.bury(pri: 3)
same(tube.peek(:buried).id, first_id, "the buried one")
same(tube.kick(10)[:id], "1", "kicked")
same(tube.peek(:buried), nil, "nothing is buried")
same(tube.peek(:delayed), nil, "nothing is delayed")
fails(Beaneater::NotFoundError, "a kick of a ready job") { producer.jobs.find(first_id).kick }

# Pauses.
tube.pause(100)
fails(Beaneater::TimedOutError, "a paused tube") { worker.tubes.reserve(0) }
same(tube.stats.pause, 100, "the pause")
tube.pause(0)
fails(Beaneater::NotFoundError, "a pause of no tube") { producer.tubes["nowhere"].pause(1) }
fails(Beaneater::NotFoundError, "statistics of no tube") { producer.tubes["nowhere"].stats }
stats = tube.stats
same([stats.name, stats.current_jobs_ready, stats.current_using, stats.current_watching], ["ruby", 2, 1, 1], "the tube")

# Names. beanstalkd 1.12 never quotes them: this one is a number there.
digits = producer.tubes["123"]
digits.put("x")
same(digits.stats.name, ENV["RELEASE_LATE_JOBS"] ? 123 : "123", "a name of digits")
same(digits.peek(:ready).stats.tube, ENV["RELEASE_LATE_JOBS"] ? 123 : "123", "the same of its job")
digits.clear

# Ends.
found = producer.jobs[first_id]
same(found.exists?, true, "a job that exists")
found.delete
same(found.exists?, false, "a job that is deleted")
fails(Beaneater::NotFoundError, "a second delete") { found.delete }
same(producer.jobs.find(first_id), nil, "a look at no job")
tube.put("buried")
buried = worker.tubes.reserve(0)
buried.bury
tube.clear
same(tube.peek(:ready), nil, "a cleared tube")
same(tube.peek(:buried), nil, "a cleared tube")
short_id = tube.put("short", ttr: 3)[:id]
short = worker.tubes.reserve
same(short.id, short_id, "a job for three seconds")
fails(Beaneater::DeadlineSoonError, "its last second") { worker.tubes.reserve(10) }
# beanstalkd 1.12 may never take back a job that has run out of time: there it is released.
expires = ENV["RELEASE_LATE_JOBS"] ? 0 : 1
begin
  short.release if expires.zero?
rescue Beaneater::NotFoundError
  expires = 1 # it did
end
other = Beaneater.new(address)
other.tubes.watch!("ruby")
short = other.tubes.reserve
same([short.id, short.stats.timeouts], [short_id, expires], "it came back")
short.delete
other.close

# Its loop of handlers.
done = []
worker.jobs.register("ruby") do |job|
  done << job.body
  raise Beaneater::AbortProcessingError if job.body == "last"
end
tube.put("one")
tube.put("two")
tube.put("last", pri: 70_000)
begin
  worker.jobs.process!(reserve_timeout: 1, release_delay: 0)
rescue Beaneater::AbortProcessingError
  nil
end
same(done, %w[one two last], "the jobs of the handler")

same(producer.stats.max_job_size, 65_535, "max-job-size")
same(producer.stats["job_timeouts"], expires, "job-timeouts")
same(producer.stats.keys.include?("current_jobs_ready"), true, "keys")
same(producer.stats.current_connections, 2, "connections")
worker.close
producer.close
