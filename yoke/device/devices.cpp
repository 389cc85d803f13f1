#include "yoke/device/devices.h"

#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/StringUtil.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "yoke/core/error.h"
#include "yoke/core/log.h"
#include "yoke/core/suggest.h"
#include "yoke/device/cuda_plugin.h"
#include "yoke/device/sim_device.h"

namespace yoke {
namespace {

std::string decimal(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

constexpr const char* where = "device.parse";
constexpr const char* forms =
    "auto, cpu, 4xcpu, cuda, cuda:all, cuda:0,4, 2xcuda, 4xsim, sim:0,2, cuda:0+cpu or 2xcuda:0";
constexpr int max_cpu_replicas = 256;
// What counts as "busy with others' work"; a desktop's own use stays below.
constexpr size_t busy_bytes = size_t{2} << 30;

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  for (char c : text) {
    if (c == separator)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  return parts;
}

std::string trim(const std::string& text) {
  const auto is_space = [](unsigned char c) { return std::isspace(c); };
  const auto first = std::find_if_not(text.begin(), text.end(), is_space);
  const auto last = std::find_if_not(text.rbegin(), text.rend(), is_space).base();
  return first < last ? std::string(first, last) : "";
}

std::string lower(std::string text) {
  for (char& c : text) c = char(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

bool is_number(const std::string& text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c); });
}

// Digits as an int; what does not fit is larger than any device.
int number(const std::string& text) { return text.size() > 6 ? 999999 : std::stoi(text); }

std::string gpu_name(const CudaApi& api, int device) {
  char name[256] = "";
  api.name(device, name, sizeof name);
  const std::string text = name;
  return text.rfind("NVIDIA ", 0) == 0 ? text.substr(7) : text;
}

// GPUs are looked for, but only an error that is about them may come out of it.
const CudaApi* find_cuda_quietly() {
  try {
    return find_cuda();
  } catch (const Error&) {
    return nullptr;
  }
}

std::string devices_here() {
  std::vector<std::string> names{"cpu"};
  if (const auto* api = find_cuda_quietly())
    for (int i = 0; i < api->device_count(); ++i)
      names.push_back(c10::str("cuda:", i, " (", gpu_name(*api, i), ")"));
  names.push_back(c10::str("sim:0 to sim:", sim::device_count() - 1, " (simulated)"));
  std::string text = "devices here: " + join_names(names, 24);
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES"); visible && cuda_is_loaded())
    text += c10::str(" (CUDA_VISIBLE_DEVICES=", visible, ", ids count the visible ones)");
  return text;
}

[[noreturn]] void fail(const std::string& message, const std::string& hint = forms) {
  throw Error(where, message + "; " + devices_here(), hint);
}

// One "+"-separated part: [N x] type [: ids].
class Part {
 public:
  Part(const std::string& text, std::string whole) : text_(text), whole_(std::move(whole)) {
    std::string rest = text;
    size_t digits = 0;
    while (digits < rest.size() && std::isdigit(static_cast<unsigned char>(rest[digits]))) ++digits;
    if (digits > 0 && digits < rest.size() && (rest[digits] == 'x' || rest[digits] == 'X')) {
      count_ = number(rest.substr(0, digits));
      rest = rest.substr(digits + 1);
    }
    const size_t colon = rest.find(':');
    type_ = rest.substr(0, colon);
    if (colon != std::string::npos) ids_ = rest.substr(colon + 1);
    if (type_ != "cpu" && type_ != "cuda" && type_ != "sim") reject_type();
    if (count_ == 0) fail(c10::str("\"", text_, "\" asks for no device"));
  }

  void append(std::vector<c10::Device>& devices) const {
    const auto type = type_ == "cpu" ? c10::kCPU : type_ == "cuda" ? c10::kCUDA : c10::kPrivateUse1;
    for (int id : ids())
      devices.push_back(type_ == "cpu" ? c10::Device(type)
                                       : c10::Device(type, c10::DeviceIndex(id)));
  }

 private:
  // Every replica's id.
  std::vector<int> ids() const {
    if (type_ == "sim") {
      sim::enable();
      sim::capacity(0);  // a bad YOKE_SIM_MEMORY is an error here, not in the middle of a step
    }
    const int present = type_ == "cuda" ? cuda_count() : type_ == "sim" ? sim::device_count() : 1;
    if (!ids_) {
      if (type_ == "cpu") return std::vector<int>(size_t(cpu_count()), 0);
      const int wanted = count_.value_or(1);
      if (wanted > present)
        fail(c10::str("\"", text_, "\" asks for ", wanted, " devices, there ",
                      present == 1 ? "is" : "are", " ", present),
             c10::str(present, "x", type_));
      return first(wanted);
    }
    if (*ids_ == "all") {
      if (count_) fail(c10::str("\"", text_, "\" has both a count and all"));
      return type_ == "cpu" ? std::vector<int>{0} : first(present);
    }
    const auto given = id_list(present);
    if (!count_) return given;
    if (given.size() > 1)
      fail(c10::str("\"", text_, "\" has both a count and several ids"),
           c10::str(type_, ":", *ids_, " for one replica on each"));
    if (type_ == "cpu") cpu_count();
    if (*count_ > max_cpu_replicas) fail(c10::str("\"", text_, "\" is too many replicas"));
    return std::vector<int>(size_t(*count_), given.front());
  }

  std::vector<int> id_list(int present) const {
    std::vector<int> given;
    for (const auto& item : split(*ids_, ',')) {
      const std::string id = trim(item);
      if (!is_number(id)) {
        if (id.find_first_not_of("0123456789") != std::string::npos && id.find(':') != id.npos)
          fail(c10::str("\"", text_, "\": \"", id, "\" is not an id"),
               "+ between two types, as in cuda:0+cpu");
        fail(c10::str("\"", text_, "\": \"", id, "\" is not an id"), c10::str(type_, ":0,1"));
      }
      const int value = number(id);
      if (value >= present) fail(c10::str(type_, ":", id, " does not exist"));
      if (std::find(given.begin(), given.end(), value) != given.end())
        fail(c10::str(type_, ":", id, " is named twice in \"", whole_, "\""),
             c10::str("2x", type_, ":", id, " for two replicas on it"));
      given.push_back(value);
    }
    return given;
  }

  int cpu_count() const {
    const int count = count_.value_or(1);
    if (count > max_cpu_replicas)
      fail(c10::str("\"", text_, "\" is too many replicas"),
           c10::str("at most ", max_cpu_replicas, "xcpu"));
    return count;
  }

  int cuda_count() const {
    try {
      return cuda().device_count();
    } catch (const Error& error) {
      if (error.hint().find("init_devices") != std::string::npos) throw;
      throw Error(where, c10::str("\"", text_, "\": ", error.message(), "; ", devices_here()),
                  error.hint());
    }
  }

  static std::vector<int> first(int count) {
    std::vector<int> ids(static_cast<size_t>(count));
    for (int i = 0; i < count; ++i) ids[size_t(i)] = i;
    return ids;
  }

  [[noreturn]] void reject_type() const {
    if (type_.empty()) fail(c10::str("\"", text_, "\" names no device"));
    std::string meant = lower(type_);
    if (meant == "gpu" || meant == "gpus" || meant == "nvidia") meant = "cuda";
    if (meant == "auto") fail("\"auto\" stands alone", "auto");
    const std::string nearest = nearest_name(meant, {"auto", "cpu", "cuda", "sim"});
    const std::string count = count_ ? c10::str(*count_, "x") : "";
    fail(c10::str("\"", text_, "\" is not a device: there is no type \"", type_, "\""),
         nearest.empty() ? forms : c10::str(count, nearest, ids_ ? ":" + *ids_ : ""));
  }

  std::string text_, whole_, type_;
  std::optional<int> count_;
  std::optional<std::string> ids_;
};

// "2" may be a count or an id, "0,1" two ids of something: both readings are offered, none is
// taken.
void reject_bare_numbers(const std::string& text) {
  const auto items = split(text, ',');
  if (!std::all_of(items.begin(), items.end(), [](const auto& s) { return is_number(trim(s)); }))
    return;
  if (items.size() > 1)
    fail(c10::str("\"", text, "\" names ids but not of what"),
         c10::str("cuda:", text, " or sim:", text));
  const int value = number(text);
  fail(c10::str("\"", text, "\" may be a number of devices or the id of one"),
       value == 0 ? "cuda:0 for the GPU with that id, or cpu for no GPU"
                  : c10::str(value, "xcuda for ", value, " GPUs, or cuda:", value,
                             " for the GPU with that id"));
}

void warn_if_busy(const CudaApi& api, int device) {
  const size_t used = api.used_by_others(device);
  if (used < busy_bytes) return;
  size_t free = 0, total = 0;
  api.memory(device, &free, &total);
  log_warning(c10::str(
      "cuda:", device, " is busy with others' work: ", decimal(double(used) / double(1 << 30), 0),
      " of ", decimal(double(total) / double(1 << 30), 0),
      " GiB in use. Name the devices to leave it out (cuda:0,2 or CUDA_VISIBLE_DEVICES)"));
}

std::vector<c10::Device> automatic() {
  const auto* api = find_cuda();
  if (!api) {
    if (const std::string why = why_no_cuda(); !why.empty())
      log_warning("auto takes the CPU: " + why);
    return {c10::Device(c10::kCPU)};
  }
  std::vector<c10::Device> devices;
  for (int i = 0; i < api->device_count(); ++i) {
    warn_if_busy(*api, i);
    devices.emplace_back(c10::kCUDA, c10::DeviceIndex(i));
  }
  return devices;
}

void check_repeats(const std::vector<std::vector<c10::Device>>& parts, const std::string& text) {
  for (size_t i = 0; i < parts.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      for (const auto& device : parts[i])
        if (std::find(parts[j].begin(), parts[j].end(), device) != parts[j].end())
          fail(c10::str(device_name(device), " is named twice in \"", text, "\""),
               c10::str("2x", device_name(device), " for two replicas on it"));
}

std::string details(c10::Device device) {
  const double gib = double(1 << 30);
  if (device.is_cuda()) {
    const auto* api = find_cuda_quietly();
    if (!api) return "";
    size_t free = 0, total = 0;
    api->memory(device.index(), &free, &total);
    return c10::str(gpu_name(*api, device.index()), ", ",
                    decimal(std::floor(double(free) / gib), 0), " GiB free");
  }
  if (device.is_privateuseone()) {
    const int64_t capacity = sim::capacity(device.index());
    if (capacity > 0)
      return c10::str("simulated, ",
                      decimal(double(capacity - sim::memory_in_use(device.index())) / gib, 2),
                      " GiB free");
    return "simulated";
  }
  return "";
}

}  // namespace

std::string device_name(c10::Device device) {
  const char* type = device.is_privateuseone() ? "sim" : device.is_cuda() ? "cuda" : "cpu";
  if (device.is_cpu()) return type;
  return c10::str(type, ":", device.has_index() ? int(device.index()) : 0);
}

std::vector<c10::Device> parse_devices(const std::string& given) {
  const std::string text = trim(given);
  if (text == "auto") return automatic();
  if (text.empty()) fail("an empty device string");
  reject_bare_numbers(text);
  std::vector<std::vector<c10::Device>> parts;
  std::vector<c10::Device> devices;
  for (const auto& part : split(text, '+')) {
    parts.emplace_back();
    Part(trim(part), text).append(parts.back());
    devices.insert(devices.end(), parts.back().begin(), parts.back().end());
  }
  check_repeats(parts, text);
  return devices;
}

std::vector<c10::Device> init_devices(const std::string& text) { return parse_devices(text); }

std::string describe_devices(const std::vector<c10::Device>& devices) {
  std::string line =
      c10::str(devices.size(), " ", devices.size() == 1 ? "device" : "devices", ": ");
  std::string former;
  for (size_t i = 0; i < devices.size(); ++i) {
    const std::string detail = details(devices[i]);
    line += (i ? ", " : "") + device_name(devices[i]);
    if (!detail.empty() && detail != former) line += " (" + detail + ")";
    former = detail;
  }
  return line;
}

}  // namespace yoke
