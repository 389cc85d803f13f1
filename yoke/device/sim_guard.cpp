// The current device, streams and events (which do nothing: every operation is done when it
// returns), generators, and the table of hooks through which PyTorch asks for them.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <c10/util/StringUtil.h>

#include <cstring>

#include "yoke/core/error.h"
#include "yoke/device/sim_device.h"
#include "yoke/device/sim_impl.h"

namespace yoke::sim {
namespace {

thread_local c10::DeviceIndex tls_current = 0;

struct SimGuard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return c10::kPrivateUse1; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const auto former = getDevice();
    setDevice(device);
    return former;
  }
  c10::Device getDevice() const override { return {c10::kPrivateUse1, tls_current}; }
  void setDevice(c10::Device device) const override {
    TORCH_CHECK(device.is_privateuseone(), "expected a simulated device, got ", device);
    if (!device.has_index()) return;
    check_device(device.index());
    tls_current = device.index();
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.has_index()) tls_current = device.index();
  }
  c10::DeviceIndex deviceCount() const noexcept override { return kDevices; }

  c10::Stream getStream(c10::Device device) const override { return stream_of(device); }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream_of(device); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return stream_of(device);
  }
  c10::Stream getNewStream(c10::Device device, int) const override { return stream_of(device); }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    return stream_of(stream.device());
  }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}

  void record(void**, const c10::Stream&, const c10::DeviceIndex,
              const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  double elapsedTime(void*, void*, const c10::DeviceIndex) const override { return 0; }

 private:
  static c10::Stream stream_of(c10::Device device) {
    return c10::Stream(c10::Stream::DEFAULT,
                       device.has_index() ? device : c10::Device(c10::kPrivateUse1, tls_current));
  }
};

// At load, unlike the rest: it sets how many threads the autograd engine makes.
C10_REGISTER_GUARD_IMPL(PrivateUse1, SimGuard)

// A device's generator is a CPU generator under another name, so the same seed draws the same
// numbers on every device.
class SimGenerator final : public c10::GeneratorImpl {
 public:
  SimGenerator(c10::DeviceIndex device, at::Generator host)
      : GeneratorImpl(c10::Device(c10::kPrivateUse1, device),
                      c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        host_(std::move(host)) {}
  const at::Generator& host() const { return host_; }

  void set_current_seed(uint64_t seed) override { host_.set_current_seed(seed); }
  void set_offset(uint64_t offset) override { host_.set_offset(offset); }
  uint64_t get_offset() const override { return host_.get_offset(); }
  uint64_t current_seed() const override { return host_.current_seed(); }
  uint64_t seed() override { return host_.seed(); }
  void set_state(const c10::TensorImpl& state) override {
    host_.unsafeGetGeneratorImpl()->set_state(state);
  }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return host_.unsafeGetGeneratorImpl()->get_state();
  }

 private:
  SimGenerator* clone_impl() const override {
    return new SimGenerator(device().index(), host_.clone());
  }
  at::Generator host_;
};

at::Generator make_generator(c10::DeviceIndex device, uint64_t seed) {
  return at::make_generator<SimGenerator>(device, at::detail::createCPUGenerator(seed));
}

struct SimHooks final : at::PrivateUse1HooksInterface {
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  void setCurrentDevice(c10::DeviceIndex device) const override { exchangeDevice(device); }
  c10::DeviceIndex getCurrentDevice() const override { return tls_current; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    check_device(device);
    return std::exchange(tls_current, device);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return device < 0 ? tls_current : exchangeDevice(device);
  }
  const at::Generator& getDefaultGenerator(c10::DeviceIndex device) const override {
    return default_generator(device < 0 ? tls_current : device);
  }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return make_generator(device < 0 ? tls_current : device, c10::default_rng_seed_val);
  }
  at::Allocator* getPinnedMemoryAllocator() const override { return c10::GetCPUAllocator(); }
  at::Device getDeviceFromPtr(void*) const override {
    TORCH_CHECK(false, "a pointer does not tell its simulated device: give the device");
  }
  void resizePrivateUse1Bytes(const c10::Storage& storage, size_t bytes) const override {
    const c10::DeviceGuard guard(storage.device());
    auto fresh = allocator()->allocate(bytes);
    std::memcpy(fresh.get(), storage.data(), std::min(bytes, storage.nbytes()));
    storage.set_data_ptr_noswap(std::move(fresh));
    storage.set_nbytes(bytes);
  }
};

}  // namespace

c10::DeviceIndex current_device() { return tls_current; }

void check_device(c10::DeviceIndex device) {
  if (device < 0 || device >= kDevices)
    throw Error("device.sim", c10::str("sim:", int(device), " does not exist"),
                c10::str("sim:0 to sim:", kDevices - 1));
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  // As if they had been there when at::manual_seed was last called.
  static auto* all = [] {
    auto* made = new std::vector<at::Generator>;
    const uint64_t seed = at::detail::getDefaultCPUGenerator().current_seed();
    for (c10::DeviceIndex i = 0; i < kDevices; ++i) made->push_back(make_generator(i, seed));
    return made;
  }();
  check_device(device);
  return (*all)[size_t(device)];
}

at::Generator host_generator(const at::Generator& generator) {
  TORCH_CHECK(generator.device().is_privateuseone(),
              "Expected a 'sim' device type for generator but found '", generator.device().type(),
              "'");
  return static_cast<SimGenerator*>(generator.unsafeGetGeneratorImpl())->host();
}

void register_hooks() {
  c10::SetAllocator(c10::kPrivateUse1, allocator());
  static SimHooks* hooks = new SimHooks;
  at::RegisterPrivateUse1HooksInterface(hooks);
  default_generator(0);
}

int device_count() { return kDevices; }

}  // namespace yoke::sim
