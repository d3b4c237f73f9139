#ifndef MOETIER_TESTS_SUPPORT_TEMP_FOLDER_H_
#define MOETIER_TESTS_SUPPORT_TEMP_FOLDER_H_

#include <stdlib.h>

#include <filesystem>
#include <string>

#include "base/check.h"

namespace moetier::testing {

// A fresh folder under the system's temporary one; gone with its contents at the end of the scope.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "moetier-test-XXXXXX").string();
    MOE_CHECK(::mkdtemp(name.data()) != nullptr, "mkdtemp {}", name);
    path_ = name;
  }
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace moetier::testing

#endif  // MOETIER_TESTS_SUPPORT_TEMP_FOLDER_H_
