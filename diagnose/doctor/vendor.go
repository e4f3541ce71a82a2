package doctor

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// vendor is a maker of GPUs, and how its software names things. What a vendor's software does not write is "".
type vendor struct {
	name  string
	owns  func(resource string) bool // it is one of the vendor's names for GPUs, or for parts of them
	parts func(resource string) bool // it counts parts of GPUs
	// present are labels that say that the node has the vendor's GPUs. A value of "" stands for any.
	present map[string]string
	// Labels of the vendor's feature discovery.
	product, count, replicas string
	driver                   []string // full version, or the parts that it is joined of
	// sameProduct are labels that are equal on nodes with the same product.
	sameProduct []string
	prefixes    []string // of the labels that feature discovery writes
	plugin      *regexp.Regexp
}

var (
	nvidia = &vendor{
		name: "NVIDIA",
		owns: func(r string) bool {
			return r == "nvidia.com/gpu" || r == "nvidia.com/gpu.shared" || strings.HasPrefix(r, "nvidia.com/mig-")
		},
		parts:   func(r string) bool { return r != "nvidia.com/gpu" },
		product: "nvidia.com/gpu.product", count: "nvidia.com/gpu.count", replicas: "nvidia.com/gpu.replicas",
		present:     map[string]string{"nvidia.com/gpu.present": "true", "feature.node.kubernetes.io/pci-10de.present": "true", "feature.node.kubernetes.io/pci-0302_10de.present": "true", "feature.node.kubernetes.io/pci-0300_10de.present": "true"},
		driver:      []string{"nvidia.com/cuda.driver-version.full"},
		sameProduct: []string{"nvidia.com/gpu.memory", "nvidia.com/gpu.family", "nvidia.com/gpu.compute.major", "nvidia.com/gpu.compute.minor"},
		prefixes:    []string{"nvidia.com/gpu.", "nvidia.com/cuda.", "nvidia.com/mig."},
	}
	amd = &vendor{
		name:    "AMD",
		owns:    func(r string) bool { return strings.HasPrefix(r, "amd.com/") },
		parts:   func(r string) bool { return r != "amd.com/gpu" },
		present: map[string]string{"feature.node.kubernetes.io/amd-gpu": "true", "amd.com/gpu.product-name": "", "amd.com/gpu.device-id": ""},
		product: "amd.com/gpu.product-name", driver: []string{"amd.com/gpu.driver-version"},
		sameProduct: []string{"amd.com/gpu.vram", "amd.com/gpu.family", "amd.com/gpu.cu-count", "amd.com/gpu.simd-count", "amd.com/gpu.device-id"},
		prefixes:    []string{"amd.com/gpu.", "beta.amd.com/gpu."},
		plugin:      regexp.MustCompile(`amdgpu-d(evice-plugin|p-)|amd-gpu-device-plugin|(^|/)rocm/k8s-device-plugin:?[^a-z]*$`),
	}
	intel = &vendor{
		name: "Intel",
		owns: func(r string) bool {
			return strings.HasPrefix(r, "gpu.intel.com/") && (strings.HasSuffix(r, "/i915") || strings.HasSuffix(r, "/xe"))
		},
		parts:   func(string) bool { return false },
		present: map[string]string{"intel.feature.node.kubernetes.io/gpu": "true", "gpu.intel.com/product": ""},
		product: "gpu.intel.com/product", sameProduct: []string{"gpu.intel.com/family"}, prefixes: []string{"gpu.intel.com/"},
		plugin: regexp.MustCompile(`intel-gpu-plugin`),
	}
	vendors = []*vendor{nvidia, amd, intel}
)

var accelerator = regexp.MustCompile(`(?i)(^|[^a-z])(gpu|tpu|npu|xpu|dcu|mlu|gcu|gaudi|ascend|neuron)s?([^a-z]|$)`)

// gpuResource says whether the extended resource counts GPUs or the like, and whose; nil: a vendor that is not known here.
func gpuResource(name string) (v *vendor, ok bool) {
	domain, rest, found := strings.Cut(name, "/")
	if !found || strings.HasSuffix(domain, "kubernetes.io") || strings.HasPrefix(domain, "requests.") || strings.HasPrefix(domain, "limits.") {
		return nil, false
	}
	for _, v := range vendors {
		if v.owns(name) {
			return v, true
		}
	}
	for _, v := range vendors {
		if v.owns(domain + "/gpu") { // counts memory or cores of a known vendor's GPUs, or monitors them
			return nil, false
		}
	}
	if domain == "gpu.intel.com" {
		return nil, false
	}
	return nil, accelerator.MatchString(rest)
}

// wholeGPU says whether the resource counts whole GPUs.
func wholeGPU(name string) bool {
	v, ok := gpuResource(name)
	return ok && (v == nil || !v.parts(name))
}

// has says whether the node's labels say that it has the vendor's GPUs.
func (v *vendor) has(n *corev1.Node) bool {
	if v.product != "" && n.Labels[v.product] != "" {
		return true
	}
	for key, value := range v.present {
		if got, ok := n.Labels[key]; ok && (value == "" && got != "" || value != "" && got == value) {
			return true
		}
	}
	return false
}

// driverOf is the version of the node's driver as its labels tell, and the label; "": they do not.
func (v *vendor) driverOf(n *corev1.Node) (version, key string) {
	for _, key := range v.driver {
		if s := n.Labels[key]; s != "" {
			return s, key
		}
	}
	if v != nvidia {
		return "", ""
	}
	for _, form := range []string{"nvidia.com/cuda.driver-version.", "nvidia.com/cuda.driver."} { // the second is of older releases
		var parts []string
		for _, part := range []string{"major", "minor", "revision", "rev"} {
			if s := n.Labels[form+part]; s != "" {
				parts = append(parts, s)
			}
		}
		if len(parts) > 0 {
			return strings.Join(parts, "."), form + "major"
		}
	}
	return "", ""
}

// counted is how many units the vendor's labels say that the node offers; false: they do not say it.
func (v *vendor) counted(n *corev1.Node) (int64, bool) {
	if v.count == "" {
		return 0, false
	}
	count, err := strconv.ParseInt(n.Labels[v.count], 10, 32)
	if err != nil || count <= 0 {
		return 0, false
	}
	if r, err := strconv.ParseInt(n.Labels[v.replicas], 10, 32); err == nil && r > 1 {
		count *= r
	}
	return count, true
}

// clique is the label of the NVLink domain that a node is in.
const clique = "nvidia.com/gpu.clique"

// runs says whether the pod is the vendor's device plugin.
func (v *vendor) runs(labels map[string]string, spec *corev1.PodSpec) bool {
	if v.plugin == nil {
		return false
	}
	for _, key := range []string{"app", "name", "app.kubernetes.io/name", "app.kubernetes.io/component", "k8s-app"} {
		if v.plugin.MatchString(labels[key]) {
			return true
		}
	}
	return slices.ContainsFunc(spec.Containers, func(k corev1.Container) bool { return v.plugin.MatchString(k.Image) })
}
