#include "yoke/core/error.h"

namespace yoke {
namespace {

std::string compose(const std::string& where, const std::string& message, const std::string& hint) {
  std::string text = "[" + where + "] " + message + ".";
  if (!hint.empty()) text += " Try: " + hint + ".";
  return text;
}

}  // namespace

Error::Error(std::string where, std::string message, std::string hint)
    : std::runtime_error(compose(where, message, hint)),
      where_(std::move(where)),
      message_(std::move(message)),
      hint_(std::move(hint)) {}

}  // namespace yoke
