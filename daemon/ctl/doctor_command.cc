#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "daemon/ctl/command.h"
#include "daemon/ctl/doctor_report.h"

namespace moetier {
namespace {

struct DoctorArguments {
  std::string store_root;
  bool json = false;
};

ExitCode RunDoctor(const DoctorArguments& arguments) {
  std::vector<Finding> findings = CheckHost({});
  for (Finding& finding : CheckStorage(AbsolutePath(arguments.store_root))) {
    findings.push_back(std::move(finding));
  }
  std::error_code error;  // without /proc, a plug-in is not found
  findings.push_back(CheckPlugin(std::filesystem::read_symlink("/proc/self/exe", error)));
  return Print(arguments.json ? FindingsJson(findings) : FindingsText(findings),
               Worst(findings) == Verdict::kFail ? ExitCode::kWrong : ExitCode::kOk);
}

}  // namespace

void AddDoctorCommand(CLI::App& app, ExitCode& exit_code) {
  CLI::App* const command =
      AddCommand(app, "doctor", "Say what this host offers and what to change. Needs no daemon.");
  const auto arguments = std::make_shared<DoctorArguments>();
  arguments->store_root = DefaultStoreRoot();
  command
      ->add_option("--store-root,--store", arguments->store_root,
                   "Where stores lie, or will; the drive below it is looked at")
      ->capture_default_str();
  AddJsonFlag(*command, arguments->json);
  command->callback([arguments, &exit_code] { exit_code = RunDoctor(*arguments); });
}

}  // namespace moetier
