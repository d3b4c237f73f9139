"""moetier over gRPC."""

import unittest

import numpy as np

import moetier
from daemon_process import (ONE_MODEL, ROWS, DaemonProcess, golden_call, wait_until)
from layer_checks import LayerChecks


class GrpcLayerTest(LayerChecks, unittest.TestCase):
    transport = "grpc"

    def check_places(self, errors):
        self.assertEqual([error.field for error in errors],
                         ["layer", "experts", "experts", "experts", "hidden", "weights", "top_k"])
        # Row 40 lies in the third piece of the split batch.
        self.assertEqual([error.row for error in errors], [None, 0, 0, 5, 40, 3, None])
        self.assertEqual(errors[1].expert, -1)
        self.assertEqual(errors[2].expert, 32)
        self.assertIn("from row 32 of the batch", errors[4].message)


class ClientTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = DaemonProcess("client", """
models: {load: [{name: a, path: packed, ram: 25%}, {name: b, path: packed, ram: 25%}]}
limits: {max_message_bytes: 64KiB, sessions: 3}
""").start()
        cls.addClassCleanup(cls.daemon.stop)

    def setUp(self):
        self.client = moetier.connect(self.daemon.socket)
        self.addCleanup(self.client.close)

    def test_models_and_status_tell_what_is_loaded(self):
        self.assertEqual([model.name for model in self.client.models()], ["a", "b"])
        self.assertEqual(self.client.model("b").geometry.hidden, 256)
        self.assertEqual(len(self.client.status().models), 2)
        with self.assertRaises(moetier.NotFound) as caught:
            self.client.model("c")
        self.assertEqual(caught.exception.reason, "UNKNOWN_MODEL")

    def test_a_session_is_seen_in_the_status_until_it_is_closed(self):
        with self.client.attach("a", client="seen") as session:
            seen = [(entry.client, entry.model_name) for entry in self.client.status().sessions]
            self.assertEqual(seen, [("seen", "a")])
            self.assertGreater(session.id, 0)
        wait_until(lambda: not self.client.status().sessions, "the session's end")

    def test_attach_says_which_model_is_unknown(self):
        with self.assertRaises(moetier.NotFound) as caught:
            self.client.attach("nope")
        self.assertEqual(caught.exception.reason, "UNKNOWN_MODEL")
        self.assertIn('"nope"', caught.exception.message)

    def test_attach_asks_for_a_name_when_two_models_are_loaded(self):
        with self.assertRaises(moetier.InvalidArgument) as caught:
            self.client.attach()
        self.assertEqual(caught.exception.reason, "UNKNOWN_MODEL")

    def test_attach_refuses_a_transport_that_is_not_there(self):
        with self.assertRaises(moetier.InvalidArgument):
            self.client.attach("a", transport="carrier pigeon")

    def test_the_fourth_of_three_sessions_is_refused(self):
        for _ in range(3):
            self.addCleanup(self.client.attach("a").close)
        with self.assertRaises(moetier.CallFailed) as caught:
            self.client.attach("a")
        self.assertEqual(caught.exception.reason, "QUOTA")

    def test_a_batch_above_the_message_limit_is_split(self):
        with self.client.attach("a") as session:
            self.assertGreater(session.max_rows, 4 * ROWS)
            layer, hidden, experts, weights = golden_call(0)
            # 256 rows of 1 KiB against messages of 64 KiB.
            many = session.layer(layer, *(np.tile(array, (4, 1))
                                          for array in (hidden, experts, weights)))
            one = session.layer(layer, hidden, experts, weights)
            self.assertEqual(many.tobytes(), 4 * one.tobytes())

    def test_the_only_model_needs_no_name(self):
        only = DaemonProcess("only", ONE_MODEL).start()
        self.addCleanup(only.stop)
        with moetier.connect(only.socket) as client, client.attach() as session:
            self.assertEqual(session.model.name, "m")


if __name__ == "__main__":
    unittest.main()
