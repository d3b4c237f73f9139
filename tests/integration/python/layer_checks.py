"""The results of layer calls, whichever way they travel: the transports' tests inherit them."""

import threading

import numpy as np

import moetier
from daemon_process import (EXPERTS, HIDDEN, LAYERS, ONE_MODEL, OUTPUT, ROWS, WEIGHTS,
                            DaemonProcess, golden_call, hash_of)

# The stated tolerance of integer weight types against float64.
MAX_RELATIVE_L2 = 0.03
SMALL_MAX_ROWS = 16
SMALL_LIMITS = f"""
limits: {{max_rows: {SMALL_MAX_ROWS}, max_in_flight: 3}}
fastlane: {{max_rows: {SMALL_MAX_ROWS}, max_in_flight: 3}}
"""


class LayerChecks:
    transport = None

    @classmethod
    def setUpClass(cls):
        config = ONE_MODEL + SMALL_LIMITS
        cls.daemon = DaemonProcess(f"layers-{cls.transport}", config).start()
        cls.addClassCleanup(cls.daemon.stop)
        cls.client = moetier.connect(cls.daemon.socket)
        cls.addClassCleanup(cls.client.close)

    def setUp(self):
        self.session = self.client.attach("m", client="layer test", transport=self.transport)
        self.addCleanup(self.session.close)

    def reference_rows(self, layer):
        return self.session.layer(*golden_call(layer))

    def assert_same_bits(self, left, right):
        self.assertEqual(left.dtype, np.float32)
        self.assertEqual(left.shape, right.shape)
        self.assertEqual(left.tobytes(), right.tobytes())

    def test_the_grant_is_the_configured_one(self):
        self.assertEqual(self.session.max_rows, SMALL_MAX_ROWS)
        self.assertEqual(self.session.model.name, "m")
        self.assertEqual(self.session.transport, self.transport)

    def test_batches_split_at_max_rows_give_the_bits_of_replay(self):
        output = np.stack([self.session.layer(*golden_call(i)) for i in range(LAYERS)], axis=1)
        self.assertEqual(hash_of(output), self.daemon.replay_hash())
        error = np.linalg.norm(output - OUTPUT) / np.linalg.norm(OUTPUT)
        self.assertGreater(error, 0)
        self.assertLess(error, MAX_RELATIVE_L2)

    def test_one_row_gives_the_bits_that_it_gives_in_a_batch(self):
        rows = [self.session.layer(*golden_call(2, slice(i, i + 1))) for i in range(ROWS)]
        self.assert_same_bits(np.concatenate(rows), self.reference_rows(2))

    def test_a_float16_row_counts_as_its_float32_value(self):
        half = HIDDEN[:, 1].astype(np.float16)
        wide = self.session.layer(1, half.astype(np.float32), EXPERTS[:, 1], WEIGHTS[:, 1])
        self.assert_same_bits(self.session.layer(1, half, EXPERTS[:, 1], WEIGHTS[:, 1]), wide)

    def test_a_bfloat16_row_counts_as_its_float32_value(self):
        upper = np.ascontiguousarray(HIDDEN[:, 1]).view(np.uint32) >> 16
        wide = (upper << 16).view(np.float32)
        expected = self.session.layer(1, wide, EXPERTS[:, 1], WEIGHTS[:, 1])
        got = self.session.layer(1, upper.astype(np.uint16), EXPERTS[:, 1], WEIGHTS[:, 1])
        self.assert_same_bits(got, expected)

    def test_arrays_of_any_order_and_integer_type_give_the_same_bits(self):
        for experts in (EXPERTS[:, 3].astype(np.int64), EXPERTS[:, 3].astype(np.uint8)):
            got = self.session.layer(3, np.asfortranarray(HIDDEN[:, 3]), np.asfortranarray(experts),
                                     WEIGHTS[:, 3].astype(np.float64))
            self.assert_same_bits(got, self.reference_rows(3))

    def test_calls_in_flight_come_back_each_with_its_own_result(self):
        expected = [self.reference_rows(i) for i in range(LAYERS)]
        futures = [self.session.layer_async(*golden_call(i % LAYERS)) for i in range(4 * LAYERS)]
        for i, future in enumerate(futures):
            self.assert_same_bits(future.result(60), expected[i % LAYERS])

    def test_the_arrays_of_a_call_in_flight_may_be_changed(self):
        expected = self.reference_rows(0)
        layer, hidden, experts, weights = (np.array(value) for value in golden_call(0))
        future = self.session.layer_async(int(layer), hidden, experts, weights)
        for array in (hidden, experts, weights):
            array[:] = 1
        self.assert_same_bits(future.result(60), expected)

    def test_two_threads_on_one_session_get_each_its_own_result(self):
        expected = [self.reference_rows(i) for i in range(2)]
        wrong = []

        def call_often(layer):
            for i in range(20):
                rows = slice(i, i + 20)
                future = self.session.layer_async(*golden_call(layer, rows))
                for output in (self.session.layer(*golden_call(layer, rows)), future.result(60)):
                    if output.tobytes() != expected[layer][rows].tobytes():
                        wrong.append((layer, i))

        threads = [threading.Thread(target=call_often, args=(layer,)) for layer in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
            self.assertFalse(thread.is_alive())
        self.assertEqual(wrong, [])

    def refused(self, reason, *call, **options):
        """The error of a call that must fail for that reason, by either way of calling."""
        with self.assertRaises(moetier.CallFailed) as direct:
            self.session.layer(*call, **options)
        self.assertEqual(direct.exception.reason, reason)
        self.assertIn(reason, str(direct.exception))
        return direct.exception

    def test_a_refused_call_says_why_and_the_session_lives_on(self):
        layer, hidden, experts, weights = golden_call(0)
        not_finite = np.array(hidden)
        not_finite[40, 7] = np.nan
        infinite = np.array(weights)
        infinite[3, 2] = np.inf
        twice = np.array(experts)
        twice[5, 1] = twice[5, 0]
        errors = [
            self.refused("UNKNOWN_LAYER", 77, hidden, experts, weights),
            self.refused("BAD_EXPERT_ID", layer, hidden, np.full_like(experts, -1), weights),
            self.refused("BAD_EXPERT_ID", layer, hidden, np.full_like(experts, 32), weights),
            self.refused("DUPLICATE_EXPERT", layer, hidden, twice, weights),
            self.refused("NOT_FINITE", layer, not_finite, experts, weights),
            self.refused("NOT_FINITE", layer, hidden, experts, infinite),
            self.refused("BAD_TOP_K", layer, hidden, np.repeat(experts, 9, 1),
                         np.repeat(weights, 9, 1)),
        ]
        self.assertIsInstance(errors[0], moetier.NotFound)
        self.assertIsInstance(errors[0], LookupError)
        for error in errors[1:]:
            self.assertIsInstance(error, moetier.InvalidArgument)
            self.assertEqual(error.code, "INVALID_ARGUMENT")
        self.check_places(errors)
        future = self.session.layer_async(layer, hidden, twice, weights)
        self.assertEqual(future.exception(60).reason, "DUPLICATE_EXPERT")
        self.assertEqual(self.reference_rows(0).shape, hidden.shape)

    def check_places(self, errors):
        """Where in the request the faults of the test above lie, as far as the transport tells."""

    def test_what_does_not_fit_is_refused_before_it_is_sent(self):
        layer, hidden, experts, weights = golden_call(0)
        answered = self.client.status().requests
        cases = [
            ("hidden", "BAD_SHAPE", (layer, hidden[:, :-1], experts, weights)),
            ("hidden", "BAD_SHAPE", (layer, hidden[0], experts, weights)),
            ("hidden", "BAD_ROWS", (layer, hidden[:0], experts[:0], weights[:0])),
            ("hidden", "BAD_TYPE", (layer, hidden.astype(np.float64), experts, weights)),
            ("experts", "BAD_SHAPE", (layer, hidden, experts[1:], weights)),
            ("experts", "BAD_TOP_K", (layer, hidden, experts[:, :0], weights[:, :0])),
            ("experts", "BAD_TYPE", (layer, hidden, experts.astype(np.float32), weights)),
            ("experts", "BAD_EXPERT_ID", (layer, hidden, experts.astype(np.int64) + (1 << 40),
                                          weights)),
            ("weights", "BAD_SHAPE", (layer, hidden, experts, weights[:, 1:])),
            ("weights", "BAD_TYPE", (layer, hidden, experts, experts)),
            ("layer", "UNKNOWN_LAYER", (-1, hidden, experts, weights)),
            ("layer", "UNKNOWN_LAYER", ("0", hidden, experts, weights)),
        ]
        for field, reason, call in cases:
            with self.subTest(field=field, reason=reason):
                error = self.refused(reason, *call)
                self.assertIsInstance(error, ValueError)
                self.assertEqual(error.field, field)
                self.assertTrue(error.message.startswith(f"{field}: "))
        for timeout in (0, -1, float("nan")):
            with self.assertRaises(moetier.InvalidArgument):
                self.session.layer(*golden_call(0), timeout=timeout)
        self.assertEqual(self.client.status().requests, answered)
