// The one exception type of yoke: what went wrong, where, and what to try.
//
//   throw Error("checkpoint.load", "net.pth: tensor \"fc.weight\" is (100, 512), expected (10,
//   512)",
//               ".new_head = true (--new-head)");
//
// what() reads "[checkpoint.load] net.pth: tensor … expected (10, 512). Try: .new_head = true
// (--new-head)." Safe to use from any thread.
#pragma once

#include <stdexcept>
#include <string>

namespace yoke {

class Error : public std::runtime_error {
 public:
  // where: "folder.verb"; message: the fault, with file, key, row or device; hint: what to try, may
  // be empty. Neither message nor hint ends with a full stop.
  Error(std::string where, std::string message, std::string hint = "");

  const std::string& where() const noexcept { return where_; }
  const std::string& message() const noexcept { return message_; }
  const std::string& hint() const noexcept { return hint_; }

 private:
  std::string where_;
  std::string message_;
  std::string hint_;
};

}  // namespace yoke
