"""Ends: of the session, the daemon and the client. Nothing hangs, and each says what ended."""

import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import moetier
from daemon_process import CTL, WORK, DaemonProcess, golden_call, wait_until

# A stopped daemon answers nothing, so that a call stays in flight as long as a test likes.
SOON = 20  # seconds within which an end must be noticed on a busy machine


class SessionEndTest(unittest.TestCase):
    def setUp(self):
        self.daemon = DaemonProcess("ends").start()
        self.addCleanup(self.daemon.stop)
        self.client = moetier.connect(self.daemon.socket)
        self.addCleanup(self.client.close)
        self.session = self.client.attach("m", client="end test")
        self.addCleanup(self.session.close)
        self.expected = self.session.layer(*golden_call(0))

    def assert_ended(self, call):
        begin = time.monotonic()
        with self.assertRaises(moetier.SessionEnded) as caught:
            call()
        self.assertLess(time.monotonic() - begin, SOON)
        return caught.exception

    def test_a_daemon_killed_in_mid_call_ends_every_call_and_a_new_one_serves_the_same_client(self):
        self.daemon.halt()
        futures = [self.session.layer_async(*golden_call(i)) for i in range(6)]
        blocked = []
        threads = [threading.Thread(target=lambda call=call: blocked.append(self.assert_ended(call)))
                   for call in (lambda: self.session.layer(*golden_call(0)),
                                lambda: self.session.residency.acquire([(0, 1)]))]
        for thread in threads:
            thread.start()
        time.sleep(0.2)  # calls are most likely sent; the outcome is the same if they are not
        self.daemon.kill()
        for future in futures:
            error = self.assert_ended(lambda: future.result(SOON))
            self.assertEqual(error.code, "UNAVAILABLE")
            self.assertIn("attach again", str(error))
        for thread in threads:
            thread.join(SOON)
        self.assertEqual(len(blocked), 2)
        self.assert_ended(lambda: self.session.layer(*golden_call(0)))
        with self.assertRaises(moetier.Unreachable):
            self.client.status()
        with self.assertRaises(moetier.Unreachable):
            self.client.attach("m")
        with self.assertRaises(moetier.Unreachable):
            moetier.connect(self.daemon.socket, timeout=0.3)

        self.daemon.start()
        wait_until(self.reaches, "the client finds the new daemon")
        with self.client.attach("m") as session:
            self.assertEqual(session.layer(*golden_call(0)).tobytes(), self.expected.tobytes())

    def reaches(self):
        try:
            return self.client.status().pid > 0
        except moetier.Unreachable:
            return False

    def test_a_stopping_daemon_ends_the_session(self):
        self.daemon.stop()
        error = self.assert_ended(lambda: self.session.layer_async(*golden_call(0)).result(SOON))
        self.assertIn("attach again", str(error))
        self.assertEqual(error.reason, "DRAINING")
        self.assert_ended(lambda: self.session.layer(*golden_call(0)))

    def test_calls_on_a_model_that_was_unloaded_are_refused(self):
        subprocess.run([CTL, "unload", "--socket", self.daemon.socket, "m"], check=True,
                       stdout=subprocess.DEVNULL, timeout=SOON)
        with self.assertRaises(moetier.NotFound) as caught:
            self.session.layer(*golden_call(0))
        self.assertEqual(caught.exception.reason, "UNKNOWN_MODEL")

    def test_a_call_that_is_not_answered_in_time_fails_alone(self):
        self.daemon.halt()
        begin = time.monotonic()
        with self.assertRaises(moetier.DeadlineExceeded) as caught:
            self.session.layer(*golden_call(1), timeout=0.3)
        self.assertIsInstance(caught.exception, TimeoutError)
        self.assertEqual(caught.exception.reason, "DEADLINE")
        self.assertGreaterEqual(time.monotonic() - begin, 0.3)
        self.daemon.resume()
        output = self.session.layer(*golden_call(0), timeout=SOON)
        self.assertEqual(output.tobytes(), self.expected.tobytes())

    def test_the_daemon_fails_a_call_that_it_reads_too_late(self):
        self.daemon.halt()
        future = self.session.layer_async(*golden_call(1), timeout=1e-6)
        self.daemon.resume()
        error = future.exception(SOON)
        self.assertIsInstance(error, moetier.DeadlineExceeded)
        self.assertEqual(error.code, "DEADLINE_EXCEEDED")

    def test_attaching_to_a_halted_daemon_fails_in_time(self):
        self.daemon.halt()
        with self.assertRaises(moetier.DeadlineExceeded):
            self.client.attach("m", timeout=0.3)
        self.daemon.resume()
        wait_until(lambda: len(self.client.status().sessions) == 1, "that session's end")

    def test_a_full_session_makes_callers_wait_until_their_deadline(self):
        self.daemon.halt()
        futures = [self.session.layer_async(*golden_call(0, slice(1)))
                   for _ in range(self.session.max_in_flight)]
        with self.assertRaises(moetier.DeadlineExceeded):
            self.session.layer_async(*golden_call(0), timeout=0.3).result(SOON)
        self.daemon.resume()
        for future in futures:
            self.assertEqual(future.result(SOON).tobytes(), self.expected[:1].tobytes())

    def test_closing_fails_what_is_in_flight_and_closes_once(self):
        self.daemon.halt()
        future = self.session.layer_async(*golden_call(0))
        begin = time.monotonic()
        self.session.close()
        self.session.close()
        self.assertLess(time.monotonic() - begin, SOON)
        self.assertIn("closed", str(self.assert_ended(lambda: future.result(SOON))))
        self.assert_ended(lambda: self.session.layer(*golden_call(0)))

    def test_closing_the_client_ends_its_sessions(self):
        self.client.close()
        self.assert_ended(lambda: self.session.layer(*golden_call(0)))

    def test_closed_sessions_leave_no_thread_and_no_session_behind(self):
        self.session.close()
        before = threading.active_count()
        for _ in range(10):
            with self.client.attach("m") as session:
                session.layer_async(*golden_call(0, slice(1))).result(SOON)
        wait_until(lambda: threading.active_count() <= before, "the threads' end")
        wait_until(lambda: not self.client.status().sessions, "the sessions' end")

    def test_a_program_that_closes_nothing_still_ends(self):
        program = (f"import moetier\nclient = moetier.connect({self.daemon.socket!r})\n"
                   "session = client.attach('m')\nprint(session.id)\n")
        done = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE,
                              timeout=SOON, check=True)
        self.assertGreater(int(done.stdout), 0)
        wait_until(lambda: len(self.client.status().sessions) == 1, "its session's end")


class UnreachableTest(unittest.TestCase):
    def refused(self, path):
        begin = time.monotonic()
        with self.assertRaises(moetier.Unreachable) as caught:
            moetier.connect(str(path), timeout=0.3)
        self.assertLess(time.monotonic() - begin, SOON)
        self.assertIsInstance(caught.exception, ConnectionError)
        self.assertIn(str(path), str(caught.exception))
        return str(caught.exception)

    def test_no_socket(self):
        self.assertIn("No such file", self.refused(WORK / "nothing"))

    def test_no_socket_but_a_file(self):
        path = WORK / "file"
        path.write_text("")
        self.assertIn("no socket", self.refused(path))

    def test_a_socket_of_others(self):
        program = ("import os, sys, moetier\n"
                   "if os.geteuid() == 0: os.seteuid(65534)\n"
                   "try: moetier.connect(sys.argv[1])\n"
                   "except moetier.Unreachable as error: print(error)\n")
        with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as listener:
            path = os.path.join(folder, "moetierd.sock")
            listener.bind(path)
            os.chmod(path, 0)
            for mode in (0o755, 0):  # whether the folder may be searched
                os.chmod(folder, mode)
                done = subprocess.run([sys.executable, "-c", program, path], timeout=SOON,
                                      stdout=subprocess.PIPE, text=True, check=True)
                self.assertIn(f"you may not use {path}: be root, or join its group", done.stdout)
            os.chmod(folder, 0o700)

    def test_a_listener_that_never_speaks(self):
        path = WORK / "silent"
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(path))
            listener.listen()
            self.assertIn("no connection", self.refused(path))

    def test_the_environment_names_the_socket_as_it_does_for_moetierctl(self):
        for environment, expected in (
                ({"MOETIER_SOCKET": "/x", "XDG_RUNTIME_DIR": "/y"}, "/x"),
                ({"RUNTIME_DIRECTORY": "/r:/q", "XDG_RUNTIME_DIR": "/y"}, "/r/moetierd.sock"),
                ({"MOETIER_SOCKET": "", "XDG_RUNTIME_DIR": "/y"}, "/y/moetierd/moetierd.sock"),
                ({}, "/run/moetierd/moetierd.sock")):
            self.assertEqual(moetier.default_socket(environment), expected)
        named = str(WORK / "named")
        before = os.environ.get("MOETIER_SOCKET")
        os.environ["MOETIER_SOCKET"] = named
        try:
            with self.assertRaises(moetier.Unreachable) as caught:
                moetier.connect()
        finally:
            os.environ.pop("MOETIER_SOCKET")
            if before is not None:
                os.environ["MOETIER_SOCKET"] = before
        self.assertIn(named, str(caught.exception))


if __name__ == "__main__":
    unittest.main()
