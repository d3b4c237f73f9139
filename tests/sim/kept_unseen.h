#ifndef MOETIER_TESTS_SIM_KEPT_UNSEEN_H_
#define MOETIER_TESTS_SIM_KEPT_UNSEEN_H_

#include "daemon/scheduling/loaded_model.h"

namespace moetier {

// A canary's fault: while this lives, what sessions keep of the model's slots is not counted where
// room is looked for. What changes meanwhile stays.
class KeptUnseen {
 public:
  KeptUnseen(LoadedModel* model, bool planted) : model_(planted ? model : nullptr) {
    if (model_ == nullptr) return;
    ram_ = model_->kept_in_ram;
    for (KeptSlots& slots : model_->kept_in_ram) slots.kept = 0;
  }
  ~KeptUnseen() {
    if (model_ == nullptr) return;
    for (size_t i = 0; i < ram_.size(); ++i) model_->kept_in_ram[i].kept += ram_[i].kept;
  }
  KeptUnseen(const KeptUnseen&) = delete;
  KeptUnseen& operator=(const KeptUnseen&) = delete;

 private:
  LoadedModel* const model_;
  KeptByClass ram_{};
};

}  // namespace moetier

#endif  // MOETIER_TESTS_SIM_KEPT_UNSEEN_H_
