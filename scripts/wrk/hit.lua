-- hit.lua -- one URL, over and over: a plain cache hit.
--
--   wrk -s hit.lua http://HOST:PORT -- [PATH]
--
--   PATH   what is asked for; default: the path of the URL given to wrk
--
-- wrk formats the request once, when no request function is defined, so the load costs the
-- client as little as it can.  (wrk calls init after it has set Host, and formats after init.)

function init(args)
    if args[1] then
        wrk.path = args[1]
    end
end
