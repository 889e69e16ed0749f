-- browser.lua -- one URL, asked for as a browser asks: 14 fields, some 720 bytes.
--
--   wrk -s browser.lua http://HOST:PORT -- [PATH]
--
--   PATH   what is asked for; default: the path of the URL given to wrk
--
-- No Cookie: what it means for caching is a matter of policy, and differs between servers.

local fields = {
    ["Connection"] = "keep-alive",
    ["sec-ch-ua"] = '"Chromium";v="130", "Google Chrome";v="130", "Not?A_Brand";v="99"',
    ["sec-ch-ua-mobile"] = "?0",
    ["sec-ch-ua-platform"] = '"Linux"',
    ["Upgrade-Insecure-Requests"] = "1",
    ["User-Agent"] = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 "
        .. "(KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36",
    ["Accept"] = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,"
        .. "image/apng,*/*;q=0.8,application/signed-exchange;v=b3;q=0.7",
    ["Sec-Fetch-Site"] = "same-origin",
    ["Sec-Fetch-Mode"] = "navigate",
    ["Sec-Fetch-User"] = "?1",
    ["Sec-Fetch-Dest"] = "document",
    ["Referer"] = "http://www.example.com/news/2026/11/a-page-with-a-fairly-long-name.html",
    ["Accept-Language"] = "en-GB,en-US;q=0.9,en;q=0.8,de;q=0.7",
}

function init(args)
    if args[1] then
        wrk.path = args[1]
    end
    for name, value in pairs(fields) do -- and Host, which wrk adds
        wrk.headers[name] = value
    end
end
