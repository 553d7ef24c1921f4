-- For wrk: picks requests at random from a file, and prints what was measured as JSON.
-- Arguments: the file (a line each: method, path, body, separated by tabs), a seed.

local requests = {}

function init(args)
    math.randomseed(tonumber(args[2]))
    local headers = { ["Content-Type"] = "application/vnd.api+json" }
    for line in io.lines(args[1]) do
        local method, path, body = line:match("^(%S+)\t(%S+)\t(.*)$")
        if body == "" then
            requests[#requests + 1] = wrk.format(method, path, {}, nil)
        else
            requests[#requests + 1] = wrk.format(method, path, headers, body)
        end
    end
end

function request()
    return requests[math.random(#requests)]
end

function done(summary, latency, _)
    local errors = summary.errors
    io.write(string.format(
        '{"requests":%d,"microseconds":%d,"p50":%.1f,"p99":%.1f,' ..
        '"connect":%d,"read":%d,"write":%d,"timeout":%d,"status":%d}\n',
        summary.requests, summary.duration, latency:percentile(50), latency:percentile(99),
        errors.connect, errors.read, errors.write, errors.timeout, errors.status))
end
