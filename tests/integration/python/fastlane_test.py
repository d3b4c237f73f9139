"""moetier over the fast lane."""

import os
import threading
import time
import unittest
from unittest import mock

import moetier
from daemon_process import ONE_MODEL, DaemonProcess, golden_call
from layer_checks import LayerChecks

SOON = 20  # seconds within which an end must be noticed on a busy machine


class FastlaneLayerTest(LayerChecks, unittest.TestCase):
    transport = "fastlane"

    def test_its_bits_are_those_of_grpc(self):
        with self.client.attach("m") as other:
            self.assert_same_bits(self.reference_rows(4), other.layer(*golden_call(4)))

    def test_it_is_seen_in_the_status(self):
        self.reference_rows(0)
        seen = [entry for entry in self.client.status().sessions if entry.id == self.session.id]
        self.assertEqual([entry.client for entry in seen], ["layer test"])
        self.assertGreater(seen[0].requests, 0)


class FastlaneEndTest(unittest.TestCase):
    def setUp(self):
        self.daemon = DaemonProcess("lane-ends").start()
        self.addCleanup(self.daemon.stop)
        self.client = moetier.connect(self.daemon.socket)
        self.addCleanup(self.client.close)

    def attach(self):
        session = self.client.attach("m", transport="fastlane")
        self.addCleanup(session.close)
        return session

    def assert_ended(self, call):
        begin = time.monotonic()
        with self.assertRaises(moetier.SessionEnded):
            call()
        self.assertLess(time.monotonic() - begin, SOON)

    def test_a_daemon_killed_in_mid_call_ends_every_call(self):
        waiting, blocked = self.attach(), self.attach()
        self.daemon.halt()
        futures = [waiting.layer_async(*golden_call(i % 6)) for i in range(waiting.max_in_flight)]
        ended = []
        thread = threading.Thread(target=lambda: ended.append(
            self.assert_ended(lambda: blocked.layer(*golden_call(0)))))
        thread.start()
        time.sleep(0.2)  # the call is most likely sent; the outcome is the same if it is not
        self.daemon.kill()
        for future in futures:
            self.assert_ended(lambda: future.result(SOON))
        thread.join(SOON)
        self.assertEqual(len(ended), 1)
        self.assert_ended(lambda: waiting.layer(*golden_call(0)))
        self.assert_ended(lambda: waiting.layer_async(*golden_call(0)).result(SOON))
        self.daemon.start()
        with moetier.connect(self.daemon.socket) as client:
            with client.attach("m", transport="fastlane") as session:
                self.assertEqual(session.layer(*golden_call(0)).shape, (64, 256))

    def test_a_stopping_daemon_ends_the_session(self):
        session = self.attach()
        session.layer(*golden_call(0))
        self.daemon.stop()
        self.assert_ended(lambda: session.layer(*golden_call(0)))

    def test_a_closed_session_takes_no_call(self):
        session = self.attach()
        session.layer_async(*golden_call(0)).result(SOON)
        session.close()
        session.close()
        self.assert_ended(lambda: session.layer(*golden_call(0)))

    def test_a_call_that_has_not_started_in_time_fails_alone(self):
        session = self.attach()
        expected = session.layer(*golden_call(0))
        error = session.layer_async(*golden_call(1), timeout=1e-6).exception(SOON)
        self.assertIsInstance(error, moetier.DeadlineExceeded)
        self.assertEqual(error.code, "DEADLINE_EXCEEDED")
        self.assertEqual(session.layer(*golden_call(0)).tobytes(), expected.tobytes())

    def test_attach_says_which_model_is_unknown(self):
        with self.assertRaises(moetier.NotFound) as caught:
            self.client.attach("nope", transport="fastlane")
        self.assertEqual(caught.exception.reason, "UNKNOWN_MODEL")

    def test_without_its_library_nothing_falls_back(self):
        with mock.patch.dict(os.environ, {"MOETIER_FASTLANE_LIBRARY": "/nothing.so"}):
            with self.assertRaises(moetier.LibraryMissing) as caught:
                self.attach()
        self.assertIn("/nothing.so", str(caught.exception))

    def test_without_a_fast_lane_in_the_daemon_nothing_falls_back(self):
        plain = DaemonProcess("no-lane", ONE_MODEL + "fastlane: {enabled: false}\n").start()
        self.addCleanup(plain.stop)
        with moetier.connect(plain.socket) as client:
            with self.assertRaises(moetier.Unreachable):
                client.attach("m", transport="fastlane")


if __name__ == "__main__":
    unittest.main()
