-- traced.lua -- one URL, and no head twice: each request has a trace id of its own (W3C Trace Context).
--
--   wrk -s traced.lua http://HOST:PORT -- [PATH]
--
--   PATH   what is asked for; default: the path of the URL given to wrk

local count = 0

function init(args)
    if args[1] then
        wrk.path = args[1]
    end
end

function request()
    count = count + 1
    wrk.headers["traceparent"] = string.format("00-%032x-%016x-01", count, count)
    return wrk.format()
end
