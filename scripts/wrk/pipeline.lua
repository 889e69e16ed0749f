-- pipeline.lua -- several requests in one write; the next write follows the last response.
--
--   wrk -s pipeline.lua http://HOST:PORT -- [DEPTH [PATH]]
--
--   DEPTH   requests per write; default 16
--   PATH    what is asked for; default: the path of the URL given to wrk

local batch

function init(args)
    local depth = tonumber(args[1] or 16)
    if not depth or depth < 1 then
        error("pipeline.lua: DEPTH must be a number from 1, not " .. tostring(args[1]))
    end
    if args[2] then
        wrk.path = args[2]
    end
    batch = string.rep(wrk.format(), depth)
end

function request()
    return batch
end
