#!/usr/bin/env python3
"""fleet_clocks.py TARND PRELOAD [TEST...] -- nodes of a fleet whose clocks are an hour apart.

PRELOAD is the library of fault_preload.c, which sets a node's wall clock.  redis-server is the engine.
"""
import sys
import tempfile

sys.dont_write_bytecode = True
from faults import Faults
from fleet_world import FleetTest, main, wait_for_proofs
from tarnd import wait_until

HOUR_MS = 3600 * 1000
COUNT = 30


class Clocks(FleetTest):
    def apart(self, policy):
        """Nodes with clocks that are an hour behind, right, and an hour ahead."""
        nodes, self.clocks = [], []
        for name, ms in (("a", -HOUR_MS), ("b", 0), ("c", HOUR_MS)):
            f = tempfile.NamedTemporaryFile(prefix="tarn-faults.")
            self.addCleanup(f.close)
            clock = Faults(f.name)
            clock.set(wall_ms=ms)
            self.clocks.append(clock)
            nodes.append(self.node(name, policy=policy, peers=True, max_blind="20s",
                                   environment=clock.environment(self.programs[1])))
        wait_for_proofs(nodes, 60)
        for n in nodes:
            wait_until(lambda n=n: n.admin("/v1/counters")["fleet.peers"] == 2, f"node {n.name} knows the others", 30)
        return nodes

    def proves(self, nodes, front):
        """Each object is fetched once, is a hit afterwards, and a proven purge at any node holds at all."""
        names = [f"/{front}/{i}" for i in range(COUNT)]
        for name in names:
            for n in nodes:
                self.assertEqual(n.get(name).version, 0)
            self.assertEqual(self.origin.asked[name], 1, name)
        for name in names:
            for n in nodes:
                answer = n.get(name)
                self.assertIn("hit", answer.fields["cache-status"], (n.name, name))
                self.assertLess(int(answer.fields["age"]), 60, (n.name, name))
        for i, name in enumerate(names):
            self.origin.change(name)
            said = nodes[i % 3].purge(url="http://tarn.test" + name)
            self.assertEqual(said["proof"], "all", said)
            self.assertEqual([n.get(name).version for n in nodes], [1] * 3)

    def test_clocks_that_are_an_hour_apart(self):
        for policy in (False, True):
            with self.subTest(policy=policy):
                nodes = self.apart(policy)
                self.proves(nodes, f"apart/{policy}")
                for n in nodes:
                    n.close()

    def test_clocks_that_are_set_while_nodes_run(self):
        nodes = self.apart(False)
        self.proves(nodes, "before")
        self.store(nodes, "/kept")
        for clock, ms in zip(self.clocks, (HOUR_MS, -HOUR_MS, 0)):
            clock.set(wall_ms=ms)
        for n in nodes:
            self.assertIn("hit", n.get("/kept").fields["cache-status"], n.name)
            self.assertTrue(n.is_in_step())
        self.proves(nodes, "after")


if __name__ == "__main__":
    main(__file__, Clocks, "TARND", "PRELOAD")
