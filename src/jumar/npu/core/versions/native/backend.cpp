// What a PyTorch before 2.10 does not offer to a back end that is written in Python: a device guard and hooks for
// PrivateUse1, kernels of the dispatcher that Python calls, tensors of another device over the same memory.
#include <torch/csrc/jit/python/pybind_utils.h>

#include <ATen/ops/from_blob.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/csrc/autograd/autograd_not_implemented_fallback.h>
#include <torch/library.h>

namespace py = pybind11;

namespace {

const c10::Device DEVICE(c10::DeviceType::PrivateUse1, 0);

// The one device that C++ sees. Operators run where they are called, so that nothing is ever waited for.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  static c10::Stream stream() { return c10::Stream(c10::Stream::DEFAULT, DEVICE); }
  c10::DeviceType type() const override { return c10::DeviceType::PrivateUse1; }
  c10::Device exchangeDevice(c10::Device) const override { return DEVICE; }
  c10::Device getDevice() const override { return DEVICE; }
  void setDevice(c10::Device) const override {}
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const noexcept override { return stream(); }
  c10::Stream getDefaultStream(c10::Device) const override { return stream(); }
  c10::Stream getStreamFromGlobalPool(c10::Device, bool) const override { return stream(); }
  c10::Stream getNewStream(c10::Device, int) const override { return stream(); }
  c10::Stream exchangeStream(c10::Stream) const noexcept override { return stream(); }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  void record(void**, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {}
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeEvent(void*) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}
};

// Not declared `override` where versions differ in what they ask. Pinned memory comes from pinned_allocator.py.
struct Hooks final : at::PrivateUse1HooksInterface {
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  virtual bool isBuilt() const { return true; }
  virtual bool isAvailable() const { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
};

void set_up() {
  if (c10::impl::hasDeviceGuardImpl(c10::DeviceType::PrivateUse1) || at::isPrivateUse1HooksRegistered())
    throw std::runtime_error("another library has registered a device guard or hooks for PrivateUse1");
  at::RegisterPrivateUse1HooksInterface(new Hooks);  // PyTorch keeps both for good
  static const c10::impl::DeviceGuardImplRegistrar registered(c10::DeviceType::PrivateUse1, new Guard);
  // Operators without a derivative: as on the devices of PyTorch, they run and their results have none.
  if (!c10::Dispatcher::singleton().hasBackendFallbackForDispatchKey(c10::DispatchKey::AutogradPrivateUse1)) {
    static torch::Library every(
        torch::Library::IMPL, "_", c10::DispatchKey::AutogradPrivateUse1, __FILE__, __LINE__);
    every.fallback(torch::autograd::basicAutogradNotImplementedFallback());
  }
}

// Another tensor over the memory of this one, on a device of this type; it keeps this one alive. PyTorch's DLPack of
// these versions makes a view first, through the dispatcher, and knows fewer types.
at::Tensor alias(const at::Tensor& tensor, c10::DeviceType type) {
  const c10::Device device = type == c10::DeviceType::CPU ? c10::Device(type) : DEVICE;
  return at::from_blob(
      tensor.unsafeGetTensorImpl()->mutable_data(), tensor.sizes(), tensor.strides(), [tensor](void*) {},
      tensor.options().device(device).requires_grad(false), device);
}
at::Tensor to_cpu(const at::Tensor& tensor) {
  TORCH_CHECK(
      !tensor.is_cuda(), "Expected all tensors to be on the same device, but found at least two devices, npu:0 and ",
      tensor.device(), "! Between the emulated NPU and a GPU tensors go through the host: tensor.cpu().to(device).");
  return alias(tensor, c10::DeviceType::CPU);
}
at::Tensor to_npu(const at::Tensor& tensor) { return alias(tensor, c10::DeviceType::PrivateUse1); }

// The table of an operator's kernels is private to the dispatcher. An explicit instantiation may name it.
template <auto MEMBER>
struct Opened {
  friend auto definition_of(const c10::OperatorHandle& op) { return op.*MEMBER; }
};
auto definition_of(const c10::OperatorHandle& op);
template struct Opened<&c10::OperatorHandle::operatorDef_>;

// The kernel that an operator runs for one dispatch key, as it is when this is made.
class Kernel {
 public:
  Kernel(c10::OperatorHandle op, c10::DispatchKey key)
      : op_(op), function_(definition_of(op)->op.lookup(c10::DispatchKeySet(key))) {}

  py::object call_boxed(c10::DispatchKeySet keys, const py::args& args, const py::kwargs& kwargs) const {
    torch::jit::Stack stack = torch::jit::createStackForSchema(
        op_.schema(), torch::jit::tuple_slice(args), kwargs, std::nullopt);
    {
      py::gil_scoped_release unlocked;
      function_.callBoxed(op_, keys, &stack);
    }
    return torch::jit::createPyObjectForStack(std::move(stack));
  }

 private:
  c10::OperatorHandle op_;
  c10::KernelFunction function_;
};

Kernel kernel_of(const std::string& name, const std::string& overload, const std::string& key) {
  auto op = c10::Dispatcher::singleton().findSchemaOrThrow(name.c_str(), overload.c_str());
  return Kernel(op, c10::parseDispatchKey(key));
}

}  // namespace

PYBIND11_MODULE(backend, module) {
  module.def("set_up", &set_up);
  module.def("kernel_of", &kernel_of);
  module.def("to_cpu", &to_cpu);
  module.def("to_npu", &to_npu);
  py::class_<Kernel>(module, "Kernel").def("call_boxed", &Kernel::call_boxed);
}
