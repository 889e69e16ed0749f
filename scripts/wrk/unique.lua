-- unique.lua -- no URL twice: every request is a miss, and the cache only fills and evicts.
--
--   wrk -s unique.lua http://HOST:PORT -- [PREFIX [RUN]]
--
--   PREFIX   the URLs are PREFIX, RUN, the thread and a number; default /u/
--   RUN      any word; give the same one to ask for the same URLs again; default: the time

local threads = 0
local stem
local count = 0

function setup(thread)
    threads = threads + 1
    thread:set("thread_id", threads)
end

function init(args)
    stem = (args[1] or "/u/") .. (args[2] or tostring(os.time())) .. "-" .. thread_id .. "-"
end

function request()
    count = count + 1
    return wrk.format(nil, stem .. count)
end
