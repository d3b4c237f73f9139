#!/usr/bin/env python3
"""Plants a violation of each rule and checks that it is found, and that its honest twin is not."""

import sys
import unittest

from tidy_rules import (MAX_LINES, SourceFile, check_arrows, check_generated_literals,
                        check_header_guard, check_headers_listed, check_length,
                        check_loops_over_parts, check_machine_paths, check_no_throw, check_restricted_headers, check_tree,
                        check_unfinished)


def found(rule, path, text):
    return list(rule(SourceFile(path, text)))


class TidyRules(unittest.TestCase):

    def test_a_wrong_arrow_is_found(self):
        include = '#include "{}"\n'.format
        wrong = [("base/a.h", "tiers/arena.h"), ("kernels/a.h", "tiers/arena.h"),
                 ("kernels/cpu/a.cc", "config/config.h"), ("config/a.cc", "kernels/layout.h"),
                 ("tiers/a.cc", "daemon/scheduling/x.h"), ("tiers/nvme/a.cc", "config/config.h"),
                 ("daemon/scheduling/a.cc", "daemon/rpc/x.h"),
                 ("daemon/scheduling/a.cc", "daemon/transport/x.h"),
                 ("daemon/transport/a.cc", "daemon/rpc/x.h"),
                 ("daemon/transport/a.cc", "moetier/fastlane_wire.h"),
                 ("daemon/fastlane/a.cc", "daemon/rpc/x.h"),
                 ("daemon/scheduling/a.cc", "moetier/v1/experts.pb.h"),
                 ("daemon/rpc/a.cc", "config/config.h"), ("daemon/rpc/a.cc", "daemon/ctl/x.h"),
                 ("daemon/main.cc", "daemon/ctl/x.h"), ("base/a.cc", "tests/support/x.h")]
        for path, header in wrong:
            with self.subTest(path=path, header=header):
                self.assertEqual(len(found(check_arrows, path, include(header))), 1)

    def test_a_right_arrow_is_not(self):
        include = '#include "{}"\n'.format
        right = [("base/a.h", "base/b.h"), ("kernels/a.h", "base/b.h"),
                 ("tiers/store/a.cc", "kernels/layout.h"), ("tiers/a.cc", "tiers/nvme/b.h"),
                 ("daemon/rpc/a.cc", "daemon/scheduling/b.h"),
                 ("daemon/rpc/a.cc", "daemon/transport/b.h"),
                 ("daemon/fastlane/a.cc", "daemon/transport/b.h"),
                 ("daemon/fastlane/a.cc", "moetier/fastlane_wire.h"),
                 ("daemon/rpc/a.cc", "moetier/v1/experts.pb.h"),
                 ("daemon/main.cc", "config/config.h"), ("tests/unit/base/a.cc", "daemon/rpc/b.h")]
        for path, header in right:
            with self.subTest(path=path, header=header):
                self.assertEqual(found(check_arrows, path, include(header)), [])

    def test_the_line_of_a_finding_is_the_includes(self):
        finding, = found(check_arrows, "base/a.h", '\n\n#include "tiers/arena.h"\n')
        self.assertEqual(str(finding), "base/a.h:3: base must not include tiers (tiers/arena.h)")

    def test_a_library_outside_its_place_is_found(self):
        wrong = [("tiers/arena.cc", "liburing.h"), ("config/config_parse.cc", "yaml-cpp/yaml.h"),
                 ("tiers/a.cc", "grpcpp/channel.h"), ("base/a.cc", "google/protobuf/any.pb.h"),
                 ("daemon/scheduling/a.cc", "moetier/v1/common.pb.h"),
                 ("daemon/rpc/a.cc", "CLI/CLI.hpp"), ("tests/unit/nvme/a.cc", "liburing.h")]
        for path, header in wrong:
            with self.subTest(path=path, header=header):
                self.assertEqual(
                    len(found(check_restricted_headers, path, f"#include <{header}>\n")), 1)

    def test_a_library_in_its_place_is_not(self):
        right = [("tiers/nvme/a.cc", "liburing.h"), ("config/config_yaml.cc", "yaml-cpp/yaml.h"),
                 ("daemon/rpc/a.cc", "grpcpp/channel.h"), ("daemon/main.cc", "CLI/CLI.hpp"),
                 ("tests/unit/rpc/a.cc", "grpcpp/channel.h")]
        for path, header in right:
            with self.subTest(path=path, header=header):
                self.assertEqual(
                    found(check_restricted_headers, path, f"#include <{header}>\n"), [])

    def test_a_wrong_header_guard_is_found(self):
        good = ("#ifndef MOETIER_BASE_A_H_\n#define MOETIER_BASE_A_H_\n"
                "#endif  // MOETIER_BASE_A_H_\n")
        self.assertEqual(found(check_header_guard, "base/a.h", good), [])
        self.assertEqual(len(found(check_header_guard, "base/b.h", good)), 1)
        self.assertEqual(len(found(check_header_guard, "base/a.h", "#pragma once\n")), 1)
        self.assertEqual(len(found(check_header_guard, "base/a.h", "")), 1)

    def test_a_file_too_long_is_found(self):
        self.assertEqual(found(check_length, "base/a.cc", "x\n" * MAX_LINES), [])
        self.assertEqual(len(found(check_length, "base/a.cc", "x\n" * (MAX_LINES + 1))), 1)

    def test_a_path_of_one_machine_is_found(self):
        for text in ("see .." + "/shared/x", "in /" + "work/main", '"/' + 'root/.cache"'):
            with self.subTest(text=text):
                self.assertEqual(len(found(check_machine_paths, "README.md", text)), 1)
        self.assertEqual(found(check_machine_paths, "README.md", "net/work/x and homework/y"), [])

    def test_unfinished_work_is_found(self):
        self.assertEqual(len(found(check_unfinished, "base/a.cc", "// TO" + "DO: later\n")), 1)
        self.assertEqual(found(check_unfinished, "base/a.cc", "// to do\n"), [])

    def test_a_throw_in_the_core_is_found(self):
        self.assertEqual(len(found(check_no_throw, "tiers/a.cc", "  throw Error{};\n")), 1)
        self.assertEqual(len(found(check_no_throw, "tiers/a.cc", "if (x) throw;\n")), 1)
        self.assertEqual(found(check_no_throw, "tiers/a.cc", "throw std::bad_alloc();"), [])
        self.assertEqual(found(check_no_throw, "tiers/a.cc", "// they throw it away\n"), [])
        self.assertEqual(found(check_no_throw, "config/config_yaml.cc", "throw Refusal{};\n"), [])

    def test_literals_that_catch_would_keep_references_to_are_found(self):
        for text, findings in (('GENERATE("a", "bc");', 1), ('GENERATE(as<std::string>{}, "a")', 0),
                               ("GENERATE(1, 2)", 0)):
            self.assertEqual(len(found(check_generated_literals, "tests/a.cc", text)), findings)

    def test_loops_over_parts_of_what_is_gone_are_found(self):
        for text, findings in (("for (auto& a : core.Snapshot().pools.at(1).classes) {", 1),
                               ("for (auto& a : Snapshot().pools[1].classes) {", 1),
                               ("for (auto& a : core.Snapshot().pools) {", 0),
                               ("for (auto& a : model.geometry().layers()) {", 0),
                               ("for (auto& a : status.pools.at(1).classes) {", 0)):
            self.assertEqual(len(found(check_loops_over_parts, "tests/a.cc", text)), findings)

    def test_a_header_that_no_list_names_is_found(self):
        cmake = SourceFile("base/CMakeLists.txt", "moetier_library(base HEADERS a.h sub/c.h)")
        listed = SourceFile("base/a.h", "")
        deeper = SourceFile("base/sub/c.h", "")
        unlisted = SourceFile("base/b.h", "")
        self.assertEqual(list(check_headers_listed([cmake, listed, deeper])), [])
        finding, = check_headers_listed([cmake, listed, deeper, unlisted])
        self.assertEqual(finding.path, "base/b.h")
        nearer = SourceFile("base/sub/CMakeLists.txt", "other.cc")
        self.assertEqual(list(check_headers_listed([cmake, nearer, deeper])), [])
        similar = SourceFile("base/CMakeLists.txt", "moetier_library(base HEADERS xb.h sub/b.h)")
        self.assertEqual(len(list(check_headers_listed([similar, unlisted]))), 1)
        exempt = SourceFile("kernels/cpu/avx2_ops.h", "")
        self.assertEqual(list(check_headers_listed([exempt])), [])

    def test_all_rules_run_over_a_tree(self):
        tree = [SourceFile("base/CMakeLists.txt", ""),
                SourceFile("base/a.h", '#pragma once\n#include "tiers/b.h"\n#include <liburing.h>\n'
                           "void F() { throw 1; }  // TO" + "DO /" + "work/x\n" +
                           "\n" * MAX_LINES)]
        self.assertEqual(len(check_tree(tree)), 8)


if __name__ == "__main__":
    sys.exit(unittest.main())
