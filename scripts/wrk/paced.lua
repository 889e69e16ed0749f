-- paced.lua -- a load of about the same rate whatever the server: each connection pauses before
-- it asks again; and how long every answer took.
--
--   wrk -s paced.lua http://HOST:PORT -- PAUSE_MS [hit|miss [RUN]]
--
--   PAUSE_MS   the longest pause; pauses are 1 to so many milliseconds, all as likely
--   miss       no URL twice: /u/, RUN, the thread and a number; default: the path given to wrk
--   RUN        any word; default: the time
--
-- At the end it prints lines of "latency MICROSECONDS COUNT": the whole distribution, to the
-- microsecond.  wrk adds, for an answer that took longer than twice the usual interval, those
-- that would have been asked for meanwhile.

local threads = 0
local pause, stem
local count = 0

function setup(thread)
    threads = threads + 1
    thread:set("thread_id", threads)
end

local function unique()
    count = count + 1
    return wrk.format(nil, stem .. count)
end

function init(args)
    pause = tonumber(args[1])
    if not pause or pause < 1 then
        error("paced.lua: PAUSE_MS must be a number from 1, not " .. tostring(args[1]))
    end
    math.randomseed(thread_id)
    if args[2] == "miss" then
        stem = "/u/" .. (args[3] or os.time()) .. "-" .. thread_id .. "-"
        request = unique
    end
end

function delay()
    return math.random(1, pause)
end

function done(summary, latency, requests)
    for i = 1, #latency do
        local us, times = latency(i)
        io.write(string.format("latency %d %d\n", us, times))
    end
end
