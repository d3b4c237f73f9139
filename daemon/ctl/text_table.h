#ifndef MOETIER_DAEMON_CTL_TEXT_TABLE_H_
#define MOETIER_DAEMON_CTL_TEXT_TABLE_H_

#include <string>
#include <string_view>
#include <vector>

namespace moetier {

enum class Align : unsigned char { kLeft, kRight };

// Columns as wide as their widest cell, two spaces apart, no trailing blanks. Cells are shown as
// they come but for control characters: a daemon's or file's text cannot drive the terminal.
class TextTable {
 public:
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };
  explicit TextTable(std::vector<Column> columns);

  void AddRow(std::vector<std::string> cells);  // one a column
  [[nodiscard]] bool empty() const { return rows_.empty(); }
  // The titles and all rows, each line ended.
  [[nodiscard]] std::string Render() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Control characters replaced by `?`.
std::string WithoutControls(std::string_view text);

}  // namespace moetier

#endif  // MOETIER_DAEMON_CTL_TEXT_TABLE_H_
