# Four threads make, write and parse documents; strings outgrow their embedded form, so each has its own block.
require 'digest'

Thread.abort_on_exception = true
digests = 4.times.map do |name|
  Thread.new do
    30.times.map do |turn|
      documents = (0...5000).map { |i| { 'id' => i, 'text' => 'x' * ((i + turn + name) % 200) } }
      written = JSON.generate(documents)
      raise 'not equal' unless JSON.parse(written) == documents
      Digest::SHA256.hexdigest(written)[0, 8]
    end.join
  end
end.map(&:value)
GC.start(full_mark: true)
GC.compact
puts digests
