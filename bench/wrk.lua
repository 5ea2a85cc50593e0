-- wrk's script: posts reviews in turn, and ends with one line of JSON for bench/load.py.
-- Argument: a file with reviews, each after a line with its length.
local requests = {}
local position = 0

function init(arguments)
  local headers = { ["content-type"] = "application/json" }
  local file = assert(io.open(arguments[1], "rb"))
  for length in function() return file:read("*l") end do
    requests[#requests + 1] = wrk.format("POST", wrk.path, headers, file:read(tonumber(length)))
    file:read("*l")
  end
  file:close()
end

function request()
  position = position % #requests + 1
  return requests[position]
end

function done(summary, latency)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format(
    '\n{"requests": %d, "microseconds": %d, "errors": %d, "p50": %d, "p99": %d}\n',
    summary.requests, summary.duration, failed, latency:percentile(50), latency:percentile(99)
  ))
end
