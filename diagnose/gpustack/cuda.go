package gpustack

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// CUDAVersion is major and minor; the zero value is not known.
type CUDAVersion struct{ major, minor int }

func (v CUDAVersion) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

// Older reports whether v is an earlier version.
func (v CUDAVersion) Older(than CUDAVersion) bool {
	return v.major < than.major || v.major == than.major && v.minor < than.minor
}

var (
	cudaNumber  = regexp.MustCompile(`^(\d{1,3})\.(\d{1,3})`)
	cudaNeed    = regexp.MustCompile(`cuda>=(\d{1,3}\.\d{1,3})`)
	cudaInTag   = regexp.MustCompile(`cuda[:-]?(\d{1,3}\.\d{1,3})`)
	cudaRefusal = regexp.MustCompile(`unsatisfied condition: cuda\s*>=\s*(\d{1,3}\.\d{1,3})`)
)

// parseCUDA reads "12.8" and "12.8.1".
func parseCUDA(s string) (v CUDAVersion, ok bool) {
	m := cudaNumber.FindStringSubmatch(s)
	if m == nil {
		return v, false
	}
	v.major, _ = strconv.Atoi(m[1])
	v.minor, _ = strconv.Atoi(m[2])
	return v, true
}

// RefusedCUDA is the version that NVIDIA's container hook missed, where its words say so.
func RefusedCUDA(text string) (CUDAVersion, bool) {
	if m := cudaRefusal.FindStringSubmatch(text); m != nil {
		return parseCUDA(m[1])
	}
	return CUDAVersion{}, false
}

// NeededCUDA is the version that the container's pod says it needs, and where it says so: an annotation, or the
// variable with which images state it. A tag alone is believed only where drivers of an older major version cannot run
// it: sure is false.
func NeededCUDA(p *corev1.Pod, k *corev1.Container) (v CUDAVersion, where string, sure bool) {
	const annotation = "sim.berth.dev/cuda"
	for _, e := range k.Env {
		if e.Name == "NVIDIA_DISABLE_REQUIRE" && (e.Value == "1" || strings.EqualFold(e.Value, "true")) {
			return CUDAVersion{}, "", false
		}
	}
	if v, ok := parseCUDA(p.Annotations[annotation]); ok {
		return v, "annotation " + annotation, true
	}
	for _, e := range k.Env {
		if m := cudaNeed.FindStringSubmatch(e.Value); e.Name == "NVIDIA_REQUIRE_CUDA" && m != nil {
			v, _ := parseCUDA(m[1])
			return v, "NVIDIA_REQUIRE_CUDA", true
		}
	}
	if m := cudaInTag.FindStringSubmatch(k.Image[strings.LastIndexByte(k.Image, '/')+1:]); m != nil {
		v, _ := parseCUDA(m[1])
		return v, "tag of image " + k.Image, false
	}
	return CUDAVersion{}, "", false
}

// NodeCUDA is the newest CUDA that the node's driver runs, as GPU feature discovery labels it.
func NodeCUDA(n *corev1.Node) (CUDAVersion, bool) {
	if n == nil {
		return CUDAVersion{}, false
	}
	if v, ok := parseCUDA(n.Labels["nvidia.com/cuda.runtime-version.full"]); ok {
		return v, true
	}
	for _, form := range []string{"nvidia.com/cuda.runtime-version.%s", "nvidia.com/cuda.runtime.%s"} {
		if v, ok := parseCUDA(n.Labels[fmt.Sprintf(form, "major")] + "." + n.Labels[fmt.Sprintf(form, "minor")]); ok {
			return v, true
		}
	}
	return CUDAVersion{}, false
}

// TooOldFor says whether the node's driver certainly cannot run the version.
func TooOldFor(n *corev1.Node, need CUDAVersion, sure bool) bool {
	have, ok := NodeCUDA(n)
	if !ok {
		return false
	}
	if !sure {
		return have.major < need.major
	}
	return have.Older(need)
}
