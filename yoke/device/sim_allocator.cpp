#include <c10/core/CPUAllocator.h>
#include <c10/util/Exception.h>
#include <c10/util/StringUtil.h>

#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstdlib>

#include "yoke/core/error.h"
#include "yoke/device/sim_device.h"
#include "yoke/device/sim_impl.h"

namespace yoke::sim {
namespace {

std::string decimal(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

struct Memory {
  std::atomic<int64_t> in_use{0}, peak{0},
      capacity{-1};  // capacity -1: YOKE_SIM_MEMORY not read yet
};

// Never destroyed: tensors in static variables may be freed after it would be.
Memory& memory_of(int device) {
  static auto* all = new Memory[kDevices];
  check_device(c10::DeviceIndex(device));
  return all[device];
}

int64_t capacity_of(Memory& memory) {
  int64_t capacity = memory.capacity.load();
  if (capacity < 0) {
    const char* text = std::getenv("YOKE_SIM_MEMORY");
    const int64_t given = text ? parse_bytes(text, "YOKE_SIM_MEMORY") : 0;
    if (memory.capacity.compare_exchange_strong(capacity, given)) capacity = given;
  }
  return capacity;
}

std::string readable(int64_t bytes) {
  if (bytes >= int64_t{1} << 30) return c10::str(decimal(double(bytes) / (1 << 30), 2), " GiB");
  if (bytes >= 1 << 20) return c10::str(decimal(double(bytes) / (1 << 20), 2), " MiB");
  if (bytes >= 1 << 10) return c10::str(decimal(double(bytes) / (1 << 10), 2), " KiB");
  return c10::str(bytes, " bytes");
}

void reserve(int64_t bytes, int device) {
  auto& memory = memory_of(device);
  const int64_t capacity = capacity_of(memory);
  const int64_t now = memory.in_use.fetch_add(bytes) + bytes;
  if (capacity > 0 && now > capacity) {
    memory.in_use.fetch_sub(bytes);
    const int64_t used = now - bytes;
    TORCH_CHECK_WITH(OutOfMemoryError, false, "sim out of memory. Tried to allocate ",
                     readable(bytes), ". sim:", device, " has a total capacity of ",
                     readable(capacity), " of which ",
                     readable(std::max<int64_t>(0, capacity - used)), " is free. ", readable(used),
                     " is in use by tensors.");
  }
  int64_t peak = memory.peak.load();
  while (now > peak && !memory.peak.compare_exchange_weak(peak, now)) {
  }
}

struct Block {
  c10::DataPtr host;
  int64_t bytes;
  int device;
};

void free_block(void* context) {
  auto* block = static_cast<Block*>(context);
  memory_of(block->device).in_use.fetch_sub(block->bytes);
  delete block;
}

struct SimAllocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override {
    const auto device = current_device();
    if (bytes == 0) return {nullptr, c10::Device(c10::kPrivateUse1, device)};
    reserve(int64_t(bytes), device);
    c10::DataPtr host;
    try {
      host = c10::GetCPUAllocator()->allocate(bytes);
    } catch (...) {
      memory_of(device).in_use.fetch_sub(int64_t(bytes));
      throw;
    }
    void* data = host.get();
    return {data, new Block{std::move(host), int64_t(bytes), device}, &free_block,
            c10::Device(c10::kPrivateUse1, device)};
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

}  // namespace

c10::Allocator* allocator() {
  static auto* the_allocator = new SimAllocator;
  return the_allocator;
}

c10::DataPtr adopt(c10::DataPtr host, size_t bytes, c10::DeviceIndex device) {
  const c10::Device where(c10::kPrivateUse1, device);
  if (!host) return {nullptr, where};
  reserve(int64_t(bytes), device);
  void* data = host.get();
  return {data, new Block{std::move(host), int64_t(bytes), device}, &free_block, where};
}

int64_t parse_bytes(const std::string& text, const std::string& source) {
  size_t end = 0;
  while (end < text.size() && end < 18 && std::isdigit(static_cast<unsigned char>(text[end])))
    ++end;
  int shift = -1;
  const std::string suffix = text.substr(end);
  if (suffix.empty()) shift = 0;
  if (suffix == "K" || suffix == "k") shift = 10;
  if (suffix == "M" || suffix == "m") shift = 20;
  if (suffix == "G" || suffix == "g") shift = 30;
  const int64_t number = end > 0 ? std::stoll(text.substr(0, end)) : 0;
  if (end == 0 || shift < 0 || number > (INT64_MAX >> shift))
    throw Error("device.sim", c10::str(source, "=\"", text, "\" is not an amount of memory"),
                "a number of bytes, or one with a suffix K, M or G, such as " + source + "=64M");
  return number << shift;
}

int64_t memory_in_use(int device) { return memory_of(device).in_use.load(); }
int64_t peak_memory(int device) { return memory_of(device).peak.load(); }
void reset_peak_memory(int device) {
  memory_of(device).peak.store(memory_of(device).in_use.load());
}
int64_t capacity(int device) { return capacity_of(memory_of(device)); }
void set_capacity(int device, int64_t bytes) {
  if (bytes < 0)
    throw Error("device.sim", c10::str("a capacity of ", bytes, " bytes"), "0 for no limit");
  memory_of(device).capacity.store(bytes);
}

}  // namespace yoke::sim
