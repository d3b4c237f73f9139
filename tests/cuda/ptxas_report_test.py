"""Tests of ptxas_report.py on planted output."""

import unittest

import ptxas_report

NAME = ("_ZN7moetier7kernels4cuda10DownKernelINS1_11IntegerDotsINS1_5Mxfp4EEELi4EEEvNS1_8DownCallE")
CLEAN = f"""ptxas info    : Compiling entry function '{NAME}' for 'sm_90'
ptxas info    : Function properties for {NAME}
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 56 registers, used 1 barriers
"""
SPILT = CLEAN.replace("sm_90", "sm_120").replace("0 bytes spill stores, 0", "8 bytes spill stores, 4")


class PtxasReportTest(unittest.TestCase):
    def test_reads_kernel_architecture_registers_and_spills(self):
        self.assertEqual(
            ptxas_report.parse(CLEAN + SPILT),
            [ptxas_report.Usage("DownKernel IntegerDots Mxfp4 x4", "90", 56, 0),
             ptxas_report.Usage("DownKernel IntegerDots Mxfp4 x4", "120", 56, 12)])

    def test_a_spill_is_a_problem(self):
        self.assertEqual(ptxas_report.problems(ptxas_report.parse(CLEAN), ["90"]), [])
        self.assertEqual(ptxas_report.problems(ptxas_report.parse(SPILT), ["120"]),
                         ["DownKernel IntegerDots Mxfp4 x4 spills 12 bytes on sm_120"])

    def test_a_missing_report_is_a_problem(self):
        self.assertEqual(ptxas_report.problems(ptxas_report.parse(CLEAN), ["80", "90"]),
                         ["DownKernel IntegerDots Mxfp4 x4 is not reported for sm_80"])
        self.assertEqual(ptxas_report.problems([], ["90"]), ["ptxas reported no kernel"])

    def test_the_table_shows_spilt_bytes(self):
        table = ptxas_report.table(ptxas_report.parse(CLEAN + SPILT), ["90", "120"])
        self.assertRegex(table, r"Mxfp4 x4 +56 +56\+12$")


if __name__ == "__main__":
    unittest.main()
