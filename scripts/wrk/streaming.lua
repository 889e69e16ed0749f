-- streaming.lua -- uncacheable bodies that pass through as they come; no URL twice.
--
--   wrk -s streaming.lua http://HOST:PORT -- [PATH...]
--
--   PATH...   asked for in turn, each with a query of its own;
--             default: /stream/1m /pass/1m (chunked, and with Content-Length)
--
-- The origin must answer them with Cache-Control: no-store, as scripts/bench's origin does.
-- The query is new each time, so that what a cache remembers of a URL (that its response could
-- not be stored, say) helps with none of them.

local threads = 0
local paths = {}
local count = 0
local stem

function setup(thread)
    threads = threads + 1
    thread:set("thread_id", threads)
end

function init(args)
    paths = #args > 0 and { unpack(args) } or { "/stream/1m", "/pass/1m" }
    stem = "?" .. os.time() .. "-" .. thread_id .. "-"
end

function request()
    count = count + 1
    return wrk.format(nil, paths[(count - 1) % #paths + 1] .. stem .. count)
end
