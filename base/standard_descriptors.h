#ifndef MOETIER_BASE_STANDARD_DESCRIPTORS_H_
#define MOETIER_BASE_STANDARD_DESCRIPTORS_H_

namespace moetier {

// Descriptors 0 to 2 that are closed would be given to the first files opened, and what is printed
// would go into them. Fills them so that a read ends at once and a write fails with EBADF. Called
// first in main.
void FillStandardDescriptors();

}  // namespace moetier

#endif  // MOETIER_BASE_STANDARD_DESCRIPTORS_H_
