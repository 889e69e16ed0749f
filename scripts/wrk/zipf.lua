-- zipf.lua -- many URLs, some far more popular than others: rank r is asked for with a
-- probability proportional to 1 / r^EXPONENT.
--
--   wrk -s zipf.lua http://HOST:PORT -- [N [EXPONENT [PREFIX [SEED]]]]
--
--   N          number of URLs; default: environment ZIPF_N, or 100000
--   EXPONENT   0: all alike; default: environment ZIPF_EXPONENT, or 0.9
--   PREFIX     the URLs are PREFIX and a number from 1 to N, in no order of popularity;
--              default: environment ZIPF_PREFIX, or /z/
--   SEED       the same seed gives each thread the same sequence; default 1
--
-- Sampling is exact and takes constant time: an alias table (Walker, in Vose's form), built
-- once by each thread, 12 bytes a URL.

local ffi = require("ffi")

local threads = 0
local n, prefix, keep, alias

function setup(thread)
    threads = threads + 1
    thread:set("thread_id", threads)
end

-- Each URL gets a slot of equal width: `keep` of the slot is its own, the rest its alias's.
local function build(exponent)
    local sum = 0
    local small, large = ffi.new("uint32_t[?]", n), ffi.new("uint32_t[?]", n)
    local nsmall, nlarge = 0, 0

    keep, alias = ffi.new("double[?]", n), ffi.new("uint32_t[?]", n)
    for i = 0, n - 1 do
        keep[i] = (i + 1) ^ -exponent
        sum = sum + keep[i]
    end
    for i = 0, n - 1 do
        keep[i] = keep[i] * n / sum
        alias[i] = i
        if keep[i] < 1 then
            small[nsmall], nsmall = i, nsmall + 1
        else
            large[nlarge], nlarge = i, nlarge + 1
        end
    end
    while nsmall > 0 and nlarge > 0 do
        local s, l = small[nsmall - 1], large[nlarge - 1]
        nsmall = nsmall - 1
        alias[s] = l
        keep[l] = keep[l] + keep[s] - 1
        if keep[l] < 1 then
            nlarge = nlarge - 1
            small[nsmall], nsmall = l, nsmall + 1
        end
    end
end

-- Which number a rank has: a bijection of 0 .. n-1, so that neighbours in popularity are no
-- neighbours in name.
local stride

local function gcd(a, b)
    while b ~= 0 do
        a, b = b, a % b
    end
    return a
end

function init(args)
    n = tonumber(args[1] or os.getenv("ZIPF_N") or 100000)
    local exponent = tonumber(args[2] or os.getenv("ZIPF_EXPONENT") or 0.9)
    prefix = args[3] or os.getenv("ZIPF_PREFIX") or "/z/"
    local seed = tonumber(args[4] or 1)
    if not n or n < 1 or n % 1 ~= 0 or not exponent or exponent < 0 or not seed then
        error("zipf.lua: N is a whole number from 1, EXPONENT a number from 0")
    end
    stride = math.floor(n * 0.6180339887) + 1
    while gcd(stride, n) ~= 1 do
        stride = stride + 1
    end
    math.randomseed(seed * 7919 + thread_id)
    build(exponent)
end

function request()
    local slot = math.random(0, n - 1)
    if math.random() >= keep[slot] then
        slot = alias[slot]
    end
    return wrk.format(nil, prefix .. tostring(slot * stride % n + 1))
end
