#!/usr/bin/env python3
"""demo_page.py TARND SOURCE -- what `scripts/run` shows: the demo's page, and tarnd's own, with its token."""
import os
import re
import signal
import subprocess
import sys
import threading
import unittest
import urllib.error
import urllib.request

PATIENCE_S = 60
program = source = None


class Demo(unittest.TestCase):
    def test_the_demo_prints_the_admin_page_and_its_token(self):
        demo = subprocess.Popen([sys.executable, f"{source}/scripts/demo.py", program,
                                 f"{source}/conf/examples/demo.yaml"], stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True)
        timer = threading.Timer(PATIENCE_S, demo.kill)
        timer.start()
        try:
            said = ""
            while "tarnd: ready" not in said:
                line = demo.stdout.readline()
                self.assertTrue(line, f"it ended: {said}")
                said += line
            page, admin = re.findall(r"http://127\.0\.0\.1:\d+/", said)
            token = re.search(r"the token it asks for: ([0-9a-f]{32})\)", said).group(1)
            self.assertIn(b"Tarn is running", urllib.request.urlopen(page).read())
            self.assertIn(b"token", urllib.request.urlopen(admin).read())
            with self.assertRaises(urllib.error.HTTPError) as refused:
                urllib.request.urlopen(admin + "v1/status")
            self.assertEqual(refused.exception.code, 401)
            refused.exception.close()
            asked = urllib.request.Request(admin + "v1/status",
                                           headers={"Authorization": "Bearer " + token})
            self.assertEqual(urllib.request.urlopen(asked).status, 200)
            demo.send_signal(signal.SIGTERM)
            demo.stdout.read()
            demo.wait()
        finally:
            timer.cancel()
            demo.kill()
            demo.stdout.close()
            demo.wait()


if __name__ == "__main__":
    program, source = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))
    unittest.main(verbosity=1)
