#!/usr/bin/env python3
"""actions.py TARND | --varnishd VARNISHD -- every action of every sub, in each form.

A sub whose only statement is a return may be answered without being run: what comes must be what a return
inside an `if`, or in a sub that is called, brings.  The pairs of sub and action are those of the compiler's
table (policy_world.actions): one without an expectation fails.  EXPECTED says what three requests in a row for
one URL are answered with, and holds for Varnish 7.1 too (by hand, two minutes) but for VARNISH*.
"""
import sys
import time

sys.dont_write_bytecode = True
import policy_world
from policy_world import BY_BEREQ_URL, BY_URL, LoadError

BASE = {
    "recv": BY_URL + "return (hash);",
    "synth": """
    set resp.body = resp.reason;
    return (deliver);""",
    "backend_response": BY_BEREQ_URL + """
    set beresp.keep = 60s;
    return (deliver);""",
    "backend_error": """
    set beresp.body = "E " + beresp.reason;
    return (deliver);""",
}
# As it is written, where that is more than its name.
ARGUMENTS = {"synth": ('synth(702, "Said")',), "error": ("error", 'error(703, "Said")'), "vcl": ("vcl(tea)",)}
MORE = {("backend_response", "pass"): ("pass", "pass(60s)")}
FORMS = ("alone", "if", "called", "else")
TEA = 'sub vcl_recv { return (synth(418, "Tea")); }\nsub vcl_synth { set resp.body = resp.reason; return (deliver); }\n'

# What three requests in a row get; one word: all three the same.  `#n` is the origin's n-th answer for the URL.
STORED, NOT_STORED = "200 #1, 200 #1, 200 #1", "200 #1, 200 #2, 200 #3"
SAID, FAILED, RESTARTS = "702 Said", "503 VCL failed", "503 Too many restarts"
ABANDONED, ERROR, RETRIES = "503 Service Unavailable", "703 E Said", "503 E Too many retries"
PLAIN_ERROR = "503 E Backend fetch failed"
EXPECTED = {
    "recv": {"hash": STORED, "pass": NOT_STORED, "pipe": NOT_STORED, "purge": "200 Purged", "restart": RESTARTS,
             "synth": SAID, "fail": FAILED, "vcl": "418 Tea"},
    "hash": {"lookup": STORED, "fail": FAILED},
    "hit": {"pass": NOT_STORED, "deliver": STORED, "restart": f"200 #1, {RESTARTS}, {RESTARTS}",
            "synth": f"200 #1, {SAID}, {SAID}", "fail": f"200 #1, {FAILED}, {FAILED}"},
    "miss": {"pass": NOT_STORED, "fetch": STORED, "restart": RESTARTS, "synth": SAID, "fail": FAILED},
    "pass": {"fetch": NOT_STORED, "restart": RESTARTS, "synth": SAID, "fail": FAILED},
    "pipe": {"pipe": NOT_STORED, "synth": SAID, "fail": FAILED},
    "purge": {"restart": RESTARTS, "synth": SAID, "fail": FAILED},
    "deliver": {"deliver": STORED, "restart": RESTARTS, "synth": SAID, "fail": FAILED},
    "synth": {"deliver": "701", "restart": "503", "fail": "500 page"},
    "backend_fetch": {"fetch": STORED, "abandon": ABANDONED, "error": PLAIN_ERROR, 'error(703, "Said")': ERROR,
                      "fail": ABANDONED},
    "backend_response": {"pass": NOT_STORED, "pass(60s)": NOT_STORED, "deliver": STORED, "retry": RETRIES,
                         "abandon": ABANDONED, "error": PLAIN_ERROR, 'error(703, "Said")': ERROR,
                         "fail": ABANDONED},
    "backend_refresh": {"retry": f"200 #1, {RETRIES}, {RETRIES}", "abandon": f"200 #1, {ABANDONED}, {ABANDONED}",
                        "merge": STORED, "obj_stale": STORED, "beresp": STORED,
                        "error": f"200 #1, {PLAIN_ERROR}, {PLAIN_ERROR}",
                        'error(703, "Said")': f"200 #1, {ERROR}, {ERROR}",
                        "fail": f"200 #1, {ABANDONED}, {ABANDONED}"},
    "backend_error": {"deliver": "503", "retry": ABANDONED, "abandon": ABANDONED, "fail": ABANDONED},
    "init": {"ok": STORED, "fail": "refused"},
    "fini": {"ok": STORED},
}
# Varnish says less of why.
VARNISH_SAYS = {"Too many restarts": "Service Unavailable", "E Too many retries": "E Backend fetch failed"}
VARNISH = {("synth", "fail"): "500"}
# Returned once; then the request goes on.
ONCE = {"restart": "req.restarts == 0", "retry": "bereq.retries == 0"}
ONCE_EXPECTED = {"hit": STORED, "synth": "701 Asked", "purge": "200 Purged", "pipe": NOT_STORED, "pass": NOT_STORED,
                 "backend_response": "200 #2, 200 #2, 200 #2", "backend_refresh": STORED,
                 "backend_error": "503 E Backend fetch failed"}


def sub(name, body):
    return f"sub vcl_{name} {{{body}\n}}\n"


def in_form(form, sub_name, statement):
    side = {"init": "server.hostname", "fini": "server.hostname"}.get(
        sub_name, "bereq.url" if sub_name.startswith("backend") else "req.url")
    other = "return (ok);" if sub_name == "fini" else "return (fail);"
    return {
        "alone": sub(sub_name, f" {statement} "),
        "if": sub(sub_name, f" if ({side}) {{ {statement} }} "),
        "called": f"sub mine {{ {statement} }}\n" + sub(sub_name, " call mine; "),
        "else": sub(sub_name, f' if ({side} == "no") {{ {other} }} else {{ {statement} }} '),
    }[form]


def policy(world, form, sub_name, statement):
    base = "".join(sub(n, body) for n, body in BASE.items() if n != sub_name)
    return "vcl 4.1;\n" + world.backends(dead=sub_name != "recv") + in_form(form, sub_name, statement) + base


def told(answer):
    text = answer.body.decode("latin-1").strip()
    return f"{answer.status} {text}".strip() if len(text) < 40 else f"{answer.status} page"


def expected(world, name, what):
    verb = what.partition("(")[0]
    want = EXPECTED[name].get(what) or EXPECTED[name][verb]
    if world.name == "varnishd":
        want = VARNISH.get((name, verb), want)
        for ours, theirs in VARNISH_SAYS.items():
            want = want.replace(ours, theirs)
    return want if "," in want or want == "refused" else ", ".join([want] * 3)


def run(world, text, target):
    try:
        world.use(text)
    except LoadError as e:
        return "refused" if "vcl_init failed" in str(e) or "Failed initialization" in str(e) else "refused: " + str(e)
    answers = []
    for _ in range(3):
        answers.append(told(world.ask(target)))
        if target.startswith("/backend_refresh"):
            time.sleep(0.02)  # what is stored is stale by then
    return ", ".join(answers)


def cases(world):
    """(sub, what is returned, form, policy, expected)"""
    for name, action in policy_world.actions():
        if world.name == "varnishd" and name == "backend_refresh":
            continue  # it has no such sub
        for what in MORE.get((name, action)) or ARGUMENTS.get(action, (action,)):
            for form in FORMS:
                yield (name, what, form, policy(world, form, name, f"return ({what});"), expected(world, name, what))
        if action in ONCE:
            want = ONCE_EXPECTED.get(name, STORED)
            body = f" if ({ONCE[action]}) {{ return ({action}); }} " + BASE.get(name, "")
            text = "vcl 4.1;\n" + world.backends() + sub(name, body) + "".join(
                sub(n, b) for n, b in BASE.items() if n != name)
            yield name, action, "once", text, want if "," in want else ", ".join([want] * 3)


def main():
    if sys.argv[1] == "--varnishd":
        world = policy_world.VarnishWorld(sys.argv[2])
    else:
        world = policy_world.TarnWorld(sys.argv[1])
    wrong = n = 0
    try:
        world.use("vcl 4.1;\n" + world.backends(dead=False))
        world.label("tea", "vcl 4.1;\n" + world.backends(dead=False) + TEA)
        for name, what, form, text, want in cases(world):
            n += 1
            got = run(world, text, f"/{name}/{n}")
            if got != want:
                wrong += 1
                print(f"{name}: return ({what}), {form}: {got}\n    instead of {want}")
    finally:
        world.close()
    print(f"{n} policies, {wrong} wrong")
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main())
