# language.vcl -- one URL, several languages: Accept-Language made small enough to cache by.
#
# Browsers send thousands of different Accept-Language headers for the four languages that the site
# has.  Here each becomes one word, which goes to the site in place of what the browser said.  The
# site answers with Vary: Accept-Language, so the cache keeps at most four variants of a page.
#
# In this order: ?lang= in the URL (a link that names a language), the cookie lang (the visitor
# chose), the browser's header, English.

vcl 4.1;

import std;

sub vcl_recv {
    # What is in no language.
    if (req.url ~ "^/(static|images|fonts)/") {
        unset req.http.Accept-Language;
        unset req.http.Cookie;
        return (hash);
    }

    # The start page: every visitor is redirected to the page in their language.
    call choose_language;
    if (req.url ~ "^/(\?.*)?$") {
        return (synth(302, "/" + req.http.Accept-Language + "/"));
    }
    # A language in the path is the strongest word there is.
    if (req.url ~ "^/(de|fr|it|en)/") {
        set req.http.Accept-Language = regsub(req.url, "^/(..)/.*$", "\1");
    }

    # Only the choice of a language was in the cookies that matters to pages.
    if (req.http.Cookie ~ "(^|; *)session=") {
        return (pass);
    }
    unset req.http.Cookie;
}

# Leaves one of de, fr, it, en in req.http.Accept-Language.
sub choose_language {
    unset req.http.X-Lang;
    if (req.url ~ "[?&]lang=(de|fr|it|en)(&|$)") {
        set req.http.X-Lang = regsub(req.url, "^.*[?&]lang=(de|fr|it|en).*$", "\1");
        # The URL is the page's; the word has gone into the header.
        set req.url = regsub(req.url, "([?&])lang=(de|fr|it|en)&?", "\1");
        set req.url = regsub(req.url, "[?&]$", "");
    } elseif (req.http.Cookie ~ "(^|; *)lang=(de|fr|it|en)(;|$)") {
        set req.http.X-Lang = regsub(req.http.Cookie,
            "^(?:.*; *)?lang=(de|fr|it|en)(?:;.*)?$", "\1");
    } elseif (req.http.Accept-Language) {
        call best_of_header;
    }
    if (!req.http.X-Lang) {
        set req.http.X-Lang = "en";
    }
    set req.http.Accept-Language = req.http.X-Lang;
    unset req.http.X-Lang;
}

# Weights (RFC 9110 12.5.4): all browsers list languages best first, so the first that the site has
# is right, except those with q=0, which the visitor does not want at all.
sub best_of_header {
    std.collect(req.http.Accept-Language);
    set req.http.X-Lang = std.tolower(req.http.Accept-Language);
    set req.http.X-Lang = regsuball(req.http.X-Lang, "\s+", "");
    set req.http.X-Lang = regsuball(req.http.X-Lang, "(^|,)[^,;]+;q=0(\.0*)?(?=,|$)", "\1");
    if (req.http.X-Lang ~ "(^|,)(de|fr|it|en)(-[a-z0-9-]+)?(;|,|$)") {
        # The lazy beginning makes it the first of the list.
        set req.http.X-Lang = regsub(req.http.X-Lang,
            "^(?:.*?,)??(de|fr|it|en)(?:-[a-z0-9-]+)?(?:[;,].*)?$", "\1");
    } else {
        unset req.http.X-Lang;
    }
}

sub vcl_backend_response {
    # A page that forgot to say so: the language is its own variant, never one for all.
    if (bereq.http.Accept-Language && beresp.http.Vary !~ "(?i)accept-language") {
        if (beresp.http.Vary) {
            set beresp.http.Vary = beresp.http.Vary + ", Accept-Language";
        } else {
            set beresp.http.Vary = "Accept-Language";
        }
    }
    if (!beresp.http.Content-Language && bereq.http.Accept-Language) {
        set beresp.http.Content-Language = bereq.http.Accept-Language;
    }
    set beresp.grace = 1h;
}

sub vcl_deliver {
    # Further caches must know that the cookie counts too.
    if (resp.http.Vary ~ "(?i)accept-language") {
        set resp.http.Vary = resp.http.Vary + ", Cookie";
    }
    if (obj.hits > 0) {
        set resp.http.X-Cache = "hit";
    } else {
        set resp.http.X-Cache = "miss";
    }
}

sub vcl_synth {
    if (resp.status == 302) {
        set resp.http.Location = resp.reason;
        set resp.reason = "Found";
        # The response depends on the visitor.
        set resp.http.Vary = "Accept-Language, Cookie";
        set resp.http.Cache-Control = "private, max-age=0";
        set resp.body = "";
        return (deliver);
    }
}
