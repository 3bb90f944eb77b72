# Four threads make, write and parse documents; strings outgrow their embedded form, so each has its own block.
# With the argument "rounds", does one round for each line of the input and answers each with one line.
require 'digest/sha2' # not loaded by four threads at once

def work(name, turns)
  turns.map do |turn|
    documents = (0...5000).map { |i| { 'id' => i, 'text' => 'x' * ((i + turn + name) % 200) } }
    written = JSON.generate(documents)
    raise 'not equal' unless JSON.parse(written) == documents
    Digest::SHA256.hexdigest(written)[0, 8]
  end.join
end

def play(turns)
  4.times.map { |name| Thread.new { work(name, turns) } }.map(&:value)
end

Thread.abort_on_exception = true
$stdout.sync = true
if ARGV == ['rounds']
  $stdin.each_line do |line|
    puts play([line.to_i] * 3).join(' ')
    GC.start
  end
else
  digests = play(0...30)
  GC.start(full_mark: true)
  GC.compact
  puts digests
end
