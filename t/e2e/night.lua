-- night.lua -- 200 requests a second for night.py, each with an id, and what became of each.
--
--   wrk -t8 -c8 -s night.lua http://HOST:PORT -- FOLDER
--
--   /page/N   N of 10 to 49: fresh for a second, so hits, misses, and stale ones that are renewed
--   /pass/N   N of 1 to 4: never kept
--   /new/ID   asked for once
--
-- A thread has one connection, and a file FOLDER/load.THREAD.  There it writes "> ID TIME TARGET"
-- for each request and "< ID TIME STATUS" for each answer, with status 0 if it is not what was
-- asked for.  The policy sends the id back, in X-Night.  wrk itself counts a connection that was
-- closed while nobody waited for anything as an error, and does not say which request met one: so
-- who got no answer is who has no second line.  It is asked for again at once, by a request whose
-- line has the first one's id behind it.
--
-- Each fourth request asks for its connection to be closed.  When FOLDER/over is there no more are
-- sent, and a thread whose last one has its answer, or will never have one, writes ".".

local ffi = require("ffi")
ffi.cdef [[
struct night_time { long s, ns; };
int clock_gettime(int which, struct night_time *t);
]]
local MONOTONIC, BEHIND_MOST, NEVER = 1, 1, 1000 * 86400
local THREADS, PER_SECOND = 8, 200

local time = ffi.new("struct night_time")
local folder, out, due
local count, targets = 0, {}
local waiting = false -- for the time of the next request
local open = nil -- the id of the one that has no answer yet
local threads = 0

local function now()
    ffi.C.clock_gettime(MONOTONIC, time)
    return tonumber(time.s) + tonumber(time.ns) * 1e-9
end

local function is_over()
    local f = io.open(folder .. "over")
    if f then
        f:close()
    end
    return f ~= nil
end

local function choose(id)
    local kind = math.random(10)
    if kind == 1 then
        return "/pass/" .. math.random(4)
    elseif kind == 2 then
        return "/new/" .. id
    end
    return "/page/" .. math.random(10, 49)
end

function setup(thread)
    threads = threads + 1
    thread:set("number", threads)
end

function init(args)
    folder = args[1] .. "/"
    out = io.open(folder .. "load." .. number, "w")
    out:setvbuf("line")
    math.randomseed(number)
    due = now() + number / PER_SECOND
end

-- wrk asks when a connection is there, too.  One that was closed while it waited is followed by
-- another, but its timer goes on, and sends: a second would from then on send beside it.
function delay()
    if waiting then
        return NEVER
    end
    waiting = true
    if is_over() then
        out:write(".\n")
        return NEVER
    end
    due = math.max(due + THREADS / PER_SECOND, now() - BEHIND_MOST)
    return math.max(0, math.ceil((due - now()) * 1000))
end

-- Before it begins, wrk asks the first thread once, to see how many requests a text has.
function request()
    if not waiting and count == 0 then
        return wrk.format("GET", "/")
    end
    waiting = false
    count = count + 1
    local id, lost = number .. "." .. count, open
    targets[id] = lost and targets[lost] or choose(id)
    open = id
    wrk.headers["X-Night"] = id
    wrk.headers["Connection"] = count % 4 == 0 and "close" or "keep-alive"
    out:write(string.format("> %s %.6f %s %s\n", id, now(), targets[id], lost or ""))
    return wrk.format("GET", targets[id])
end

function response(status, headers, body)
    local id = headers["X-Night"] or "?"
    local target = targets[id]
    if target == nil or status == 200 and body:sub(1, #target + 1) ~= target .. "\n" then
        status = 0
    end
    targets[id], open = nil, nil
    out:write(string.format("< %s %.6f %d\n", id, now(), status))
end

function done(summary)
    local e = summary.errors
    io.write(string.format("\nerrors connect=%d read=%d write=%d timeout=%d\n",
        e.connect, e.read, e.write, e.timeout))
end
