#ifndef MOETIER_TESTS_ENGINE_PROBE_RUN_H_
#define MOETIER_TESTS_ENGINE_PROBE_RUN_H_

#include <llama.h>

#include <string>
#include <vector>

// Runs a fixed list of tokens through an engine and writes the logits of each, so that two engines
// can be compared token by token whatever either would have chosen.
struct ProbeOptions {
  std::string tokens;         // file of token numbers
  std::string out;            // file that gets [tokens, vocabulary] f32
  int prompt = 128;           // tokens decoded as one batch; the rest one at a time
  bool last_only = false;     // of the prompt, ask for the last token's logits alone
  int greedy = 0;             // then decode so many more, each the likeliest, and print them
  int pause_at = -1;          // before this token print "paused" and wait for a line
  bool two_contexts = false;  // the second repeats everything; its logits must be equal
};

// --tokens FILE --out FILE --prompt N --last-only --greedy N --pause-at N --two-contexts;
// takes what it knows out of `arguments`.
ProbeOptions TakeProbeOptions(std::vector<std::string>& arguments);

// A failed decode is printed as "decode STATUS", tried again after a line from stdin if there was a
// pause, and is the exit status 3 otherwise. Returns the exit status.
int RunProbe(llama_model* model, const llama_context_params& parameters,
             const ProbeOptions& options);

// Callback for llama_context_params.cb_eval: asks for every node of the experts, so that the engine
// computes the graph in the smallest pieces.
bool AskForExperts(ggml_tensor* tensor, bool ask, void* data);

#endif  // MOETIER_TESTS_ENGINE_PROBE_RUN_H_
