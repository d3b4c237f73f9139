"""moetier over gRPC: leases and transfers."""

import time
import unittest
from concurrent import futures

import moetier
from daemon_process import ONE_MODEL, DaemonProcess

RESIDENT = 3  # moetier.v1.RESIDENCE_RESIDENT

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
        self.check_refused("BAD_SHAPE", "kept", ask.release_keys, [], kept=[1])
        self.check_refused("UNKNOWN_LAYER", "keys", ask.release_keys, [(77, 0)])
        self.check_refused("BAD_POOL", "pool", ask.release_keys, [(0, 1)], pool=7)
        self.check_refused("BAD_TOP_K", "top_k", ask.route, 0, [[]])
        self.check_refused("DUPLICATE_EXPERT", "experts", ask.route, 0, [[1, 2], [3, 3]])
        with self.assertRaises(moetier.InvalidArgument):
            ask.landed(wait=-1)

    def test_what_was_filled_is_leased_until_it_is_released(self):
        ask = self.residency
        keys = [(1, 30), (1, 31)]
        fills = ask.fill(keys)
        numbers = [fill.transfer for fill in fills if fill.HasField("transfer")]
        self.assertEqual(len(numbers), 2)  # nobody has used them
        undone = 1
        while undone <= max(numbers):
            landed = ask.landed(after=undone - 1, wait=30)
            self.assertFalse(landed.failed)
            undone = landed.all_done_below
        slots = ask.acquire(keys, pool=0)
        self.assertEqual([slot.WhichOneof("outcome") for slot in slots], ["lease", "lease"])
        self.assertEqual(len({slot.lease.slot for slot in slots}), 2)
        self.assertGreater(slots[0].lease.bytes, 0)
        self.assertEqual(ask.release([slot.lease.lease for slot in slots]), 2)
        self.assertEqual(ask.release([slot.lease.lease for slot in slots]), 0)
        ask.fence(0)
        ask.drain(0)
        self.check_refused("BAD_POOL", "pool", ask.fence, 7)
        routed = ask.route(1, [[31, 30], [30, 29]])
        self.assertEqual([each.expert for each in routed], [31, 30, 29])
        self.assertEqual([each.residence == RESIDENT for each in routed], [True, True, False])

    def read(self, keys):
        numbers = [fill.transfer for fill in self.residency.fill(keys) if fill.HasField("transfer")]
        done = 0
        while numbers and done <= max(numbers):
            done = self.residency.landed(after=done, wait=30).all_done_below

    def test_leases_whose_reply_was_lost_are_given_back_by_their_keys(self):
        ask = self.residency
        keys = [(2, expert) for expert in range(16)]
        self.read(keys)
        known = ask.acquire([keys[0]])[0].lease.lease
        late = []

        # Together they take about as long as they may: some answers come too late by a little.
        def lease_and_release(own):
            for attempt in range(100):
                try:
                    slots = ask.acquire(own, timeout=0.0005 * (1 + attempt % 8))
                    leases = [slot.lease.lease for slot in slots if slot.HasField("lease")]
                    self.assertEqual(ask.release(leases), len(leases))
                except moetier.DeadlineExceeded:
                    late.append(own)
                    ask.release_keys(own, kept=[known])

        with futures.ThreadPoolExecutor(8) as threads:
            list(threads.map(lease_and_release, [keys[i::8] for i in range(8)]))
        print(f"{len(late)} of 800 calls were late")
        # What was cut short may be on its way for a moment yet.
        end = time.monotonic() + 10
        while ask.release_keys(keys, kept=[known]) > 0 and time.monotonic() < end:
            time.sleep(0.01)
        self.assertEqual(ask.release_keys(keys, pool=0), 1)  # the known one
        self.assertEqual(ask.release([known]), 0)

    def test_what_is_released_by_key_waits_no_more(self):
        ask = self.residency
        self.read([(3, 0)])
        leases = [ask.acquire([(3, 0)])[0].lease.lease for _ in range(3)]
        self.assertEqual(ask.release_keys([(3, 0)], kept=leases[:1]), 2)
        self.assertEqual(ask.release_keys([(3, 1)]), 0)
        self.assertEqual(ask.release(leases), 1)

    def test_a_session_that_was_closed_leases_nothing(self):
        self.session.close()
        with self.assertRaises(moetier.SessionEnded) as caught:
            self.residency.acquire([(0, 1)])
        self.assertIn("closed", str(caught.exception))

    def test_a_session_that_the_daemon_does_not_know_has_ended(self):
        self.residency._session.token = b"\0" * len(self.residency._session.token)
        with self.assertRaises(moetier.SessionEnded) as caught:
            self.residency.acquire([(0, 1)])
        self.assertEqual(caught.exception.reason, "UNKNOWN_SESSION")


if __name__ == "__main__":
    unittest.main()
