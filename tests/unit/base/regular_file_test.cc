#include "base/regular_file.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>

#include "base/file_io.h"
#include "tests/support/temp_folder.h"

namespace moetier {
namespace {

using testing::TempFolder;

std::string RefusalOf(const std::string& path, int flags = O_RDONLY) {
  const Result<UniqueFd> fd = OpenRegularFile(path, flags);
  return fd.has_value() ? "opened" : fd.error().message;
}

UniqueFd ListenAt(const std::string& path) {
  UniqueFd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  REQUIRE(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0);
  return fd;
}

}  // namespace

TEST_CASE("OpenRegularFile: what is no regular file is named without waiting for it", "[base]") {
  const TempFolder folder;
  const std::string fifo = folder.File("fifo");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  for (const int flags : {O_RDONLY, O_RDWR, O_RDWR | O_CREAT | O_TRUNC, O_RDONLY | O_DIRECT}) {
    CHECK(RefusalOf(fifo, flags) == "open " + fifo + ": it is a FIFO; a regular file is needed");
    CHECK(RefusalOf(folder.path(), flags) ==
          "open " + folder.path() + ": it is a directory; a regular file is needed");
  }
  const std::string socket = folder.File("socket");
  const UniqueFd listening = ListenAt(socket);
  CHECK(RefusalOf(socket) == "open " + socket + ": it is a socket; a regular file is needed");
  CHECK(RefusalOf("/dev/zero") ==
        "open /dev/zero: it is a character device; a regular file is needed");
  CHECK(OpenRegularFile("/dev/zero", O_RDONLY, FileKinds::kRegularOrBlockDevice).error().message ==
        "open /dev/zero: it is a character device; a regular file or a block device is needed");
  CHECK(OpenRegularFile(fifo, O_RDONLY).error().code == ErrorCode::kInvalidArgument);
}

TEST_CASE("OpenRegularFile: a name that leads nowhere says why", "[base]") {
  const TempFolder folder;
  const std::string link = folder.File("link");
  REQUIRE(::symlink("/nowhere/at/all", link.c_str()) == 0);
  CHECK(RefusalOf(link) == "open " + link +
                               ": No such file or directory: it is a symbolic link to "
                               "/nowhere/at/all, which does not exist");
  CHECK(OpenRegularFile(link, O_RDONLY).error().code == ErrorCode::kNotFound);
  std::ofstream(folder.File("file")) << "text";
  CHECK(RefusalOf(folder.File("file/lock")) ==
        "open " + folder.File("file/lock") +
            ": Not a directory: what stands before the last `/` is a file");
  CHECK(RefusalOf(folder.File("none")) ==
        "open " + folder.File("none") + ": No such file or directory");
}

TEST_CASE("OpenRegularFile: a regular file is opened as asked, and its reads may wait", "[base]") {
  const TempFolder folder;
  const std::string path = folder.File("file");
  const Result<UniqueFd> made = OpenRegularFile(path, O_RDWR | O_CREAT, FileKinds::kRegular, 0600);
  REQUIRE(made.has_value());
  CHECK((::fcntl(made->get(), F_GETFL) & O_NONBLOCK) == 0);
  CHECK((::fcntl(made->get(), F_GETFL) & O_ACCMODE) == O_RDWR);
  CHECK((::fcntl(made->get(), F_GETFD) & FD_CLOEXEC) != 0);
  struct stat info {};
  REQUIRE(::stat(path.c_str(), &info) == 0);
  CHECK((info.st_mode & 0777) == 0600);
}

TEST_CASE("ReadTextFile: a FIFO in the file's place is refused", "[base]") {
  const TempFolder folder;
  const std::string fifo = folder.File("config");
  REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
  CHECK(ReadTextFile(fifo, 10_B).error().message ==
        "open " + fifo + ": it is a FIFO; a regular file is needed");
  CHECK(ReadTextFile("/proc/self/comm", 64_B).value() == "base_test\n");
}

TEST_CASE("ErrnoError: the limit on open files is named with what raises it", "[base]") {
  rlimit limit{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &limit) == 0);
  CHECK(ErrnoError(EMFILE, "open /x").message == "open /x: Too many open files (limit " +
                                                     std::to_string(limit.rlim_cur) +
                                                     "); raise LimitNOFILE (ulimit -n)");
}

}  // namespace moetier
