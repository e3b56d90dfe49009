#include "slimpack/packflow/device/optional_operator.h"

#include <string>

namespace slimpack {

OptionalOperator::OptionalOperator(const char* name, const char* overload)
    : op_(c10::Dispatcher::singleton().findSchemaOrThrow((std::string("aten::") + name).c_str(),
                                                         overload)) {}

}  // namespace slimpack
