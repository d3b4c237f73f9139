#include "daemon/fastlane/file_resolver.h"

#include <fcntl.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <future>
#include <string>
#include <thread>

namespace moetier {
namespace {

constexpr std::chrono::seconds kSoon{10};

std::vector<UniqueFd> Files(size_t count) {
  std::vector<UniqueFd> files;
  for (size_t i = 0; i < count; ++i) files.push_back(UniqueFd::Open("/dev/null", O_RDONLY).value());
  return files;
}

// A resolver by the number of files: one is a model that serves, more are one to be loaded, which
// takes until the test says so or the client has gone.
struct Script {
  [[nodiscard]] ModelResolver Resolver() {
    return [this](std::vector<UniqueFd> files, const std::function<bool()>&) {
      ResolvedFiles resolved;
      if (files.size() == 1) {
        resolved.model.emplace().name = "serves";
        return Result<ResolvedFiles>(std::move(resolved));
      }
      auto held = std::make_shared<std::vector<UniqueFd>>(std::move(files));
      resolved.load = [this, held](const ProgressListener& listener) -> Result<ModelInfo> {
        if (++loads == 1) loading.set_value();
        while (!loaded.load() && listener({}) == GoOn::kYes) std::this_thread::yield();
        if (!loaded.load()) return Error{ErrorCode::kCancelled, Reason::kCancelled, "gave up"};
        ModelInfo info;
        info.name = "loaded";
        return info;
      };
      return Result<ResolvedFiles>(std::move(resolved));
    };
  }

  std::promise<void> loading;  // the first load has begun
  std::atomic<int> loads = 0;
  std::atomic<bool> loaded = false;
};

// One client's question.
struct Client {
  Status Ask(FileResolver& resolver, size_t files) {
    return resolver.Resolve(Files(files), wanted, [answer = answer](Result<ModelInfo> model) {
      answer->set_value(std::move(model));
    });
  }
  [[nodiscard]] std::string Answer() {
    std::future<Result<ModelInfo>> coming = answer->get_future();
    if (coming.wait_for(kSoon) != std::future_status::ready) return "nothing";
    Result<ModelInfo> model = coming.get();
    return model ? model->name : model.error().message;
  }

  FileResolver::Wanted wanted = std::make_shared<std::atomic<bool>>(true);
  std::shared_ptr<std::promise<Result<ModelInfo>>> answer =
      std::make_shared<std::promise<Result<ModelInfo>>>();
};

}  // namespace

TEST_CASE("FileResolver: one client's load keeps none waiting whose model serves", "[fastlane]") {
  Script script;
  FileResolver resolver(script.Resolver());
  Client slow;
  REQUIRE(slow.Ask(resolver, 2).has_value());
  script.loading.get_future().wait();
  Client quick;
  REQUIRE(quick.Ask(resolver, 1).has_value());
  CHECK(quick.Answer() == "serves");
  script.loaded = true;
  CHECK(slow.Answer() == "loaded");
}

TEST_CASE("FileResolver: loads run one at a time, and who has gone is passed over", "[fastlane]") {
  Script script;
  FileResolver resolver(script.Resolver());
  Client first;
  Client gone;
  Client last;
  REQUIRE(first.Ask(resolver, 2).has_value());
  script.loading.get_future().wait();
  REQUIRE(gone.Ask(resolver, 2).has_value());
  REQUIRE(last.Ask(resolver, 2).has_value());
  Client quick;  // once it is answered, the two before it wait for the load
  REQUIRE(quick.Ask(resolver, 1).has_value());
  CHECK(quick.Answer() == "serves");
  CHECK(script.loads == 1);
  gone.wanted->store(false);
  script.loaded = true;
  CHECK(first.Answer() == "loaded");
  CHECK(last.Answer() == "loaded");
  CHECK(script.loads == 2);
}

TEST_CASE("FileResolver: waiting clients hold a bounded number of files", "[fastlane]") {
  Script script;
  FileResolver resolver(script.Resolver());
  Client first;
  Client second;
  REQUIRE(first.Ask(resolver, FileResolver::kMaxWaitingFiles - 2).has_value());
  REQUIRE(second.Ask(resolver, 2).has_value());
  Client third;
  const Status refused = third.Ask(resolver, 1);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().code == ErrorCode::kExhausted);
  CHECK(refused.error().reason == Reason::kQuota);
  CHECK(refused.error().message ==
        "128 model files of waiting clients are open already, the most allowed; try again later");
  script.loaded = true;
  CHECK(first.Answer() == "loaded");
  CHECK(second.Answer() == "loaded");
  while (!third.Ask(resolver, 1).has_value())
    std::this_thread::yield();  // counted to the job's end
  CHECK(third.Answer() == "serves");
}

TEST_CASE("FileResolver: Stop ends the load that runs and drops what waits", "[fastlane]") {
  Script script;
  FileResolver resolver(script.Resolver());
  Client first;
  Client second;
  REQUIRE(first.Ask(resolver, 2).has_value());
  REQUIRE(second.Ask(resolver, 2).has_value());
  script.loading.get_future().wait();
  resolver.Stop();
  CHECK(first.Answer() == "gave up");
  CHECK(script.loads == 1);
  Client late;
  const Status refused = late.Ask(resolver, 1);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().reason == Reason::kDraining);
}

}  // namespace moetier
