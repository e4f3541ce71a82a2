package gpustack

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/diagnose/facts"
	"github.com/berth-dev/berth/diagnose/internal/podspec"
)

// MIGProfile is how a GPU is divided: 1g.10gb is one of seven compute slices with 10 GB of memory.
type MIGProfile struct {
	Name   string // "1g.10gb"
	Slices int
	Memory int // GB
}

var profileForm = regexp.MustCompile(`^([1-7])g\.([0-9]{1,4})gb(\.me)?$`)

// readProfile reads a profile as resources and configurations name it; ok is false for other words.
func readProfile(name string) (p MIGProfile, ok bool) {
	m := profileForm.FindStringSubmatch(name)
	if m == nil {
		return p, false
	}
	p.Name = name
	p.Slices, _ = strconv.Atoi(m[1])
	p.Memory, _ = strconv.Atoi(m[2])
	return p, p.Memory > 0
}

// perGPU is how many such instances a GPU of the memory, in MiB, is divided into: seven compute slices and eight of
// memory are there to share. 0 MiB: unknown. A profile that such a GPU does not have gives 0.
func (p MIGProfile) perGPU(mebibytes int64) int64 {
	n := 7 / p.Slices
	if mebibytes > 0 {
		slice := float64(mebibytes) / 1024 / 8
		share := math.Max(1, math.Round(float64(p.Memory)/slice))
		if math.Abs(float64(p.Memory)-share*slice) > slice/5 {
			return 0 // a profile of other GPUs
		}
		n = min(n, int(8/share))
	}
	if strings.HasSuffix(p.Name, ".me") {
		n = min(n, 1)
	}
	return int64(max(n, 0))
}

// MIGOf are the profiles of which the list has instances, the largest first.
func MIGOf(list corev1.ResourceList) []MIGProfile {
	var out []MIGProfile
	for name, q := range list {
		if word, ok := strings.CutPrefix(string(name), migPrefix); ok && !q.IsZero() {
			if p, ok := readProfile(word); ok {
				out = append(out, p)
			}
		}
	}
	slices.SortFunc(out, func(a, b MIGProfile) int {
		return b.Slices*10000 + b.Memory - a.Slices*10000 - a.Memory
	})
	return out
}

// DividedGPUs is how many GPUs of seven compute slices the node needs at least for the instances that it shows; 0 where it shows none.
func DividedGPUs(n *corev1.Node) int64 {
	var slices int64
	for _, p := range MIGOf(n.Status.Capacity) {
		q := n.Status.Capacity[p.Resource()]
		slices += int64(p.Slices) * min(max(q.Value(), 0), 1<<20)
	}
	return (slices + 6) / 7
}

// Resource is the name under which a node offers devices of the profile.
func (p MIGProfile) Resource() corev1.ResourceName { return corev1.ResourceName(migPrefix + p.Name) }

// SingleProfile is the part of a GPU that the node offers as nvidia.com/gpu, by MIG's strategy single: feature discovery has it
// in the product's name, as in NVIDIA-H100-80GB-HBM3-MIG-1g.10gb.
func SingleProfile(n *corev1.Node) (MIGProfile, bool) {
	_, profile, ok := CutProfile(n.Labels[LabelProduct])
	return profile, ok && n.Labels[LabelMIGStrategy] == StrategySingle
}

// CutProfile parts the name of such a product in the product's own and the profile.
func CutProfile(product string) (of string, profile MIGProfile, ok bool) {
	of, word, cut := strings.Cut(product, "-MIG-")
	profile, ok = readProfile(word)
	return of, profile, cut && ok
}

// gpusIn is how many GPUs the machine has, whole.
func gpusIn(f *facts.Facts, n *corev1.Node) int64 {
	if count, err := strconv.ParseInt(n.Labels[labelCount], 10, 32); err == nil && count > 0 {
		return count
	}
	if g := NodeNamed(f, n.Name); g != nil {
		return g.Units
	}
	return 0
}

// Partition divides the node's GPUs as its label nvidia.com/mig.config asks, where that is still to be done and the
// configuration is one that everybody has: all-disabled, or all of one profile.
func Partition(f *facts.Facts, n *corev1.Node) {
	if Repartitions(n) {
		PartitionAs(f, n, n.Labels[LabelMIG])
	}
}

// PartitionAs says whether it knows the configuration.
func PartitionAs(f *facts.Facts, n *corev1.Node, config string) bool {
	word, all := strings.CutPrefix(config, "all-")
	profile, known := readProfile(strings.ReplaceAll(word, "+", "."))
	if !all || !known && word != "disabled" {
		return false
	}
	gpus := gpusIn(f, n)
	for _, list := range []*corev1.ResourceList{&n.Status.Capacity, &n.Status.Allocatable} {
		*list = maps.Clone(*list)
		for name := range *list {
			if strings.HasPrefix(string(name), migPrefix) {
				delete(*list, name)
			}
		}
		if !known {
			*list = WithQuantity(*list, WholeGPU, *resource.NewQuantity(gpus, resource.DecimalSI))
			continue
		}
		memory, _ := strconv.ParseInt(n.Labels["nvidia.com/gpu.memory"], 10, 64)
		*list = WithQuantity(*list, WholeGPU, resource.Quantity{})
		*list = WithQuantity(*list, profile.Resource(), *resource.NewQuantity(gpus*profile.perGPU(memory), resource.DecimalSI))
	}
	return true
}

// MIGRequest are the profiles that the pod asks for.
func MIGRequest(p *corev1.Pod) []MIGProfile { return MIGOf(podspec.Requests(p)) }
