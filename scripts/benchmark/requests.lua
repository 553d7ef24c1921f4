-- For wrk: sends random requests from a file and prints the measurements as JSON.
-- Arguments: the file (one request per line: method, path and body, separated by tabs), and
-- an access token if the server requires one.
-- The measured time ends with the last response, when its connection sends the next request. If it
-- included the requests still open at the end, which are not counted, the rate would be too low.

local ffi = require("ffi")
ffi.cdef("typedef struct { long seconds, microseconds; } instant; int gettimeofday(instant *, void *);")

-- What is replaced in bodies by other digits in each request: those of the elapsed time.
local changing = "00000000"

local requests = {}
local changes = false
local threads = {}
local instant = ffi.new("instant")

local function now()
    ffi.C.gettimeofday(instant, nil)
    return tonumber(instant.seconds) * 1e6 + tonumber(instant.microseconds)
end

function setup(thread)
    table.insert(threads, thread)
end

function init(args)
    math.randomseed(1)
    local media_type = "application/vnd.api+json"
    local authorization = args[2] and "Bearer " .. args[2]
    local extension = media_type .. '; ext="https://jsonapi.org/ext/atomic"'
    for line in io.lines(args[1]) do
        local method, path, body = line:match("^(%S+)\t(%S+)\t(.*)$")
        changes = changes or body:find(changing, 1, true)
        local headers = { ["Authorization"] = authorization }
        if body ~= "" then
            headers["Content-Type"] = path == "/operations" and extension or media_type
        end
        table.insert(requests, wrk.format(method, path, headers, body ~= "" and body or nil))
    end
    started = now()
end

function request()
    elapsed = now() - started
    local text = requests[math.random(#requests)]
    return changes and text:gsub(changing, string.format("%08d", elapsed % 1e8)) or text
end

function done(summary, latency, _)
    local errors = summary.errors
    io.write(string.format(
        '{"requests":%d,"microseconds":%d,"p50":%.1f,"p99":%.1f,' ..
        '"connect":%d,"read":%d,"write":%d,"timeout":%d,"status":%d}\n',
        summary.requests, threads[1]:get("elapsed"),
        latency:percentile(50), latency:percentile(99),
        errors.connect, errors.read, errors.write, errors.timeout, errors.status))
end
