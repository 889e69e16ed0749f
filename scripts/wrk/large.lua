-- large.lua -- large cacheable bodies, one after the other.
--
--   wrk -s large.lua http://HOST:PORT -- [PATH...]
--
--   PATH...   asked for in turn; default: /1m /4m /64m

local requests = {}
local count = 0

function init(args)
    local paths = #args > 0 and { unpack(args) } or { "/1m", "/4m", "/64m" }
    for i, path in ipairs(paths) do
        requests[i] = wrk.format(nil, path)
    end
end

function request()
    count = count % #requests + 1
    return requests[count]
end
