"""moetier over gRPC: leases and transfers."""

import unittest

import moetier
from daemon_process import ONE_MODEL, DaemonProcess


class ResidencyTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = DaemonProcess("residency", ONE_MODEL).start()
        cls.addClassCleanup(cls.daemon.stop)

    def setUp(self):
        client = moetier.connect(self.daemon.socket)
        self.addCleanup(client.close)
        self.session = client.attach("m")
        self.addCleanup(self.session.close)
        self.residency = self.session.residency

    def check_refused(self, reason, field, call, *arguments, **named):
        with self.assertRaises(moetier.CallFailed) as caught:
            call(*arguments, **named)
        self.assertEqual((caught.exception.reason, caught.exception.field), (reason, field))

    def test_what_is_wrong_with_a_call_is_named(self):
        ask = self.residency
        self.check_refused("BAD_SHAPE", "keys", ask.acquire, [])
        self.check_refused("UNKNOWN_LAYER", "keys", ask.acquire, [(77, 0)])
        self.check_refused("BAD_EXPERT_ID", "keys", ask.acquire, [(0, 32)], wait=1.5)
        self.check_refused("DUPLICATE_EXPERT", "keys", ask.fill, [(0, 1), (0, 1)])
        self.check_refused("BAD_POOL", "pool", ask.acquire, [(0, 1)], pool=7)
        self.check_refused("BAD_POOL", "pool", ask.push, [(0, 1)], pool=0)
        self.check_refused("BAD_SHAPE", "leases", ask.release, [])
        self.check_refused("BAD_TOP_K", "top_k", ask.route, 0, [[]])
        self.check_refused("DUPLICATE_EXPERT", "experts", ask.route, 0, [[1, 2], [3, 3]])
        with self.assertRaises(moetier.InvalidArgument):
            ask.landed(wait=-1)

    def test_a_session_that_was_closed_leases_nothing(self):
        self.session.close()
        self.check_refused("UNKNOWN_SESSION", "session", self.residency.acquire, [(0, 1)])


if __name__ == "__main__":
    unittest.main()
