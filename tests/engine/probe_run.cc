#include "probe_run.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iostream>

namespace {

using Logits = std::vector<float>;

class Session {
 public:
  Session(llama_model* model, const llama_context_params& parameters, const ProbeOptions& options)
      : context_(llama_init_from_model(model, parameters)),
        options_(options),
        vocabulary_(llama_vocab_n_tokens(llama_model_get_vocab(model))) {}
  ~Session() { llama_free(context_); }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  bool usable() const { return context_ != nullptr; }

  // Appends the logits asked for; false when the engine failed.
  bool Decode(const std::vector<llama_token>& tokens, size_t first, size_t count, bool last_only,
              Logits& out) {
    llama_batch batch = llama_batch_init(static_cast<int32_t>(count), 0, 1);
    batch.n_tokens = static_cast<int32_t>(count);
    for (size_t i = 0; i < count; ++i) {
      batch.token[i] = tokens[first + i];
      batch.pos[i] = static_cast<llama_pos>(first + i);
      batch.n_seq_id[i] = 1;
      batch.seq_id[i][0] = 0;
      batch.logits[i] = static_cast<int8_t>(!last_only || i + 1 == count);
    }
    const int32_t status = DecodeWithRetry(batch);
    for (size_t i = 0; status == 0 && i < count; ++i) {
      if (batch.logits[i] == 0) continue;
      const float* row = llama_get_logits_ith(context_, static_cast<int32_t>(i));
      out.insert(out.end(), row, row + vocabulary_);
    }
    llama_batch_free(batch);
    return status == 0;
  }

  int vocabulary() const { return vocabulary_; }

 private:
  int32_t DecodeWithRetry(const llama_batch& batch) {
    int32_t status = llama_decode(context_, batch);
    while (status != 0) {
      std::printf("decode %d\n", status);
      std::fflush(stdout);
      std::string line;
      if (options_.pause_at < 0 || !std::getline(std::cin, line)) return status;
      status = llama_decode(context_, batch);
    }
    return status;
  }

  llama_context* context_;
  const ProbeOptions& options_;
  int vocabulary_;
};

std::vector<llama_token> ReadTokens(const std::string& path) {
  std::ifstream in(path);
  std::vector<llama_token> tokens;
  for (llama_token token = 0; in >> token;) tokens.push_back(token);
  return tokens;
}

void Pause(const ProbeOptions& options, size_t at) {
  if (options.pause_at < 0 || at != static_cast<size_t>(options.pause_at)) return;
  std::puts("paused");
  std::fflush(stdout);
  std::string line;
  std::getline(std::cin, line);
}

bool RunTokens(Session& session, const ProbeOptions& options, std::vector<llama_token> tokens,
               Logits& logits) {
  const size_t prompt = std::min<size_t>(options.prompt, tokens.size());
  Pause(options, 0);
  if (prompt > 0 && !session.Decode(tokens, 0, prompt, options.last_only, logits)) return false;
  for (size_t at = prompt; at < tokens.size(); ++at) {
    Pause(options, at);
    if (!session.Decode(tokens, at, 1, false, logits)) return false;
  }
  for (int i = 0; i < options.greedy; ++i) {
    const auto last = logits.end() - session.vocabulary();
    const auto best = static_cast<llama_token>(std::max_element(last, logits.end()) - last);
    std::printf("%d%s", best, i + 1 == options.greedy ? "\n" : " ");
    tokens.push_back(best);
    if (!session.Decode(tokens, tokens.size() - 1, 1, false, logits)) return false;
  }
  return true;
}

}  // namespace

ProbeOptions TakeProbeOptions(std::vector<std::string>& arguments) {
  ProbeOptions options;
  std::vector<std::string> rest;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& name = arguments[i];
    const auto value = [&] { return ++i < arguments.size() ? arguments[i] : std::string(); };
    if (name == "--tokens") {
      options.tokens = value();
    } else if (name == "--out") {
      options.out = value();
    } else if (name == "--prompt") {
      options.prompt = std::atoi(value().c_str());
    } else if (name == "--greedy") {
      options.greedy = std::atoi(value().c_str());
    } else if (name == "--pause-at") {
      options.pause_at = std::atoi(value().c_str());
    } else if (name == "--last-only") {
      options.last_only = true;
    } else if (name == "--two-contexts") {
      options.two_contexts = true;
    } else {
      rest.push_back(name);
    }
  }
  arguments = rest;
  return options;
}

int RunProbe(llama_model* model, const llama_context_params& parameters,
             const ProbeOptions& options) {
  const std::vector<llama_token> tokens = ReadTokens(options.tokens);
  Logits logits;
  Session session(model, parameters, options);
  if (!session.usable() || !RunTokens(session, options, tokens, logits)) return 3;
  if (options.two_contexts) {
    Logits again;
    Session second(model, parameters, options);
    if (!second.usable() || !RunTokens(second, options, tokens, again)) return 3;
    if (again != logits) {
      std::puts("the second context's logits differ");
      return 1;
    }
  }
  std::ofstream out(options.out, std::ios::binary);
  out.write(reinterpret_cast<const char*>(logits.data()),
            static_cast<std::streamsize>(logits.size() * sizeof(float)));
  return out ? 0 : 1;
}

bool AskForExperts(ggml_tensor* tensor, bool ask, void* /*data*/) {
  return !ask || std::strstr(tensor->name, "ffn_moe_") != nullptr;
}
