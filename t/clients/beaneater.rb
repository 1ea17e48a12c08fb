# Every call of beaneater, whose Debian package has no tests: ruby beaneater.rb PORT
require "beaneater"

def same(got, expected, what)
  raise "#{what}: #{got.inspect}, not #{expected.inspect}" unless got == expected
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
tube = producer.tubes["ruby"]

# Tubes.
producer.tubes.use("ruby")
same(producer.tubes.used.name, "ruby", "the used tube")
worker.tubes.watch("ruby", "more")
same(worker.tubes.watched.map(&:name), %w[default ruby more], "watched, in order")
worker.tubes.ignore("more")
worker.tubes.watch!("ruby")
same(worker.tubes.watched.map(&:name), %w[ruby], "watched alone")
fails(Beaneater::NotIgnoredError, "ignoring the only tube") { worker.tubes.ignore("ruby") }
same(producer.tubes.all.map(&:name), %w[default ruby], "tubes")

# Bodies.
["plain", "a\r\nb\r\n", "", (0..255).to_a.pack("C*"), "x" * 65_535].each do |body|
  put = tube.put(body)
  job = worker.tubes.reserve
  same([put[:status], job.id, job.body.b], ["INSERTED", put[:id], body.b], "a job")
  job.delete
end
fails(Beaneater::JobTooBigError, "a large job") { tube.put("x" * 65_536) }

# Moves of one job.
late_id = tube.put("late", pri: 9, ttr: 60)[:id]
first_id = tube.put("first", pri: 1, ttr: 60)[:id]
same(tube.peek(:ready).id, first_id, "the next")
first = worker.tubes.reserve(0)
same([first.id, worker.tubes.reserve(0).id], [first_id, late_id], "order by priority")
fails(Beaneater::TimedOutError, "a reserve without jobs") { worker.tubes.reserve(0) }
first.touch
same([first.reserved, first.reserved?, first.pri, first.ttr, first.delay], [true, true, 1, 60, 0], "the job")
same(first.tube, "ruby", "its tube")
first.release(pri: 5, delay: 100)
same(tube.peek(:delayed).id, first_id, "the delayed one")
same([first.stats.state, first.stats.pri, first.stats.releases], ["delayed", 5, 1], "the released one")
first.kick
first = worker.tubes.reserve
first.bury(pri: 3)
same(tube.peek(:buried).id, first_id, "the buried one")
same([tube.kick(10)[:id], tube.peek(:buried), tube.peek(:delayed)], ["1", nil, nil], "kicked")
fails(Beaneater::NotFoundError, "a kick of a ready job") { producer.jobs.find(first_id).kick }

# Pauses, statistics, ends.
tube.pause(100)
fails(Beaneater::TimedOutError, "a paused tube") { worker.tubes.reserve(0) }
same(tube.stats.pause, 100, "the pause")
tube.pause(0)
fails(Beaneater::NotFoundError, "a pause of no tube") { producer.tubes["nowhere"].pause(1) }
fails(Beaneater::NotFoundError, "statistics of no tube") { producer.tubes["nowhere"].stats }
stats = tube.stats
same([stats.name, stats.current_jobs_ready, stats.current_using, stats.current_watching], ["ruby", 1, 1, 1], "the tube")
# beanstalkd 1.12 never quotes names: this one is a number there.
digits = producer.tubes["123"]
digits.put("x")
same(digits.stats.name, ENV["RELEASE_LATE_JOBS"] ? 123 : "123", "a name of digits")
same(digits.peek(:ready).stats.tube, ENV["RELEASE_LATE_JOBS"] ? 123 : "123", "the same of its job")
digits.clear
found = producer.jobs[first_id]
same([found.body, found.exists?], ["first", true], "a look at a job")
found.delete
same([found.exists?, producer.jobs.find(first_id)], [false, nil], "a job that is deleted")
fails(Beaneater::NotFoundError, "a second delete") { found.delete }
worker.close
worker = Beaneater.new(address)
worker.tubes.watch!("ruby")
worker.tubes.reserve.delete # "late", which came back with its connection
short_id = tube.put("short", ttr: 3)[:id]
short = worker.tubes.reserve
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
tube.put("last", pri: 70_000)
begin
  worker.jobs.process!(reserve_timeout: 1, release_delay: 0)
rescue Beaneater::AbortProcessingError
  nil
end
same(done, %w[one last], "the jobs of the handler")
same([producer.stats.max_job_size, producer.stats["job_timeouts"]], [65_535, expires], "statistics")
worker.close
producer.close
