package diagnose

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
)

// migProfile is how a GPU is divided: 1g.10gb is one of seven compute slices with 10 GB of memory.
type migProfile struct {
	name   string // "1g.10gb"
	slices int
	memory int // GB
}

var profileForm = regexp.MustCompile(`^([1-7])g\.([0-9]{1,4})gb(\.me)?$`)

// readProfile reads a profile as resources and configurations name it; ok is false for other words.
func readProfile(name string) (p migProfile, ok bool) {
	m := profileForm.FindStringSubmatch(name)
	if m == nil {
		return p, false
	}
	p.name = name
	p.slices, _ = strconv.Atoi(m[1])
	p.memory, _ = strconv.Atoi(m[2])
	return p, p.memory > 0
}

// perGPU is how many such instances a GPU of the memory, in MiB, is divided into: seven compute slices and eight of
// memory are there to share. 0 MiB: unknown. A profile that such a GPU does not have gives 0.
func (p migProfile) perGPU(mebibytes int64) int64 {
	n := 7 / p.slices
	if mebibytes > 0 {
		slice := float64(mebibytes) / 1024 / 8
		share := math.Max(1, math.Round(float64(p.memory)/slice))
		if math.Abs(float64(p.memory)-share*slice) > slice/5 {
			return 0 // a profile of other GPUs
		}
		n = min(n, int(8/share))
	}
	if strings.HasSuffix(p.name, ".me") {
		n = min(n, 1)
	}
	return int64(max(n, 0))
}

// migOf are the profiles of which the list has instances, the largest first.
func migOf(list corev1.ResourceList) []migProfile {
	var out []migProfile
	for name, q := range list {
		if word, ok := strings.CutPrefix(string(name), migPrefix); ok && !q.IsZero() {
			if p, ok := readProfile(word); ok {
				out = append(out, p)
			}
		}
	}
	slices.SortFunc(out, func(a, b migProfile) int {
		return b.slices*10000 + b.memory - a.slices*10000 - a.memory
	})
	return out
}

func (p migProfile) resource() corev1.ResourceName { return corev1.ResourceName(migPrefix + p.name) }

// gpusIn is how many GPUs the machine has, whole.
func gpusIn(f *facts.Facts, n *corev1.Node) int64 {
	if count, err := strconv.ParseInt(n.Labels[labelCount], 10, 32); err == nil && count > 0 {
		return count
	}
	if g := gpuNodeNamed(f, n.Name); g != nil {
		return g.Units
	}
	return 0
}

// partition divides the node's GPUs as its label nvidia.com/mig.config asks, where that is still to be done and the
// configuration is one that everybody has: all-disabled, or all of one profile.
func partition(f *facts.Facts, n *corev1.Node) {
	if repartitions(n) {
		partitionAs(f, n, n.Labels[labelMIG])
	}
}

// partitionAs says whether it knows the configuration.
func partitionAs(f *facts.Facts, n *corev1.Node, config string) bool {
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
			*list = withQuantity(*list, wholeGPU, *resource.NewQuantity(gpus, resource.DecimalSI))
			continue
		}
		memory, _ := strconv.ParseInt(n.Labels["nvidia.com/gpu.memory"], 10, 64)
		*list = withQuantity(*list, wholeGPU, resource.Quantity{})
		*list = withQuantity(*list, profile.resource(), *resource.NewQuantity(gpus*profile.perGPU(memory), resource.DecimalSI))
	}
	return true
}

// wishParts gives a node that is being divided by a configuration of somebody's own what the pod asks for: nobody can
// tell yet that it will offer something else.
func (c *Case) wishParts(n *corev1.Node) {
	g := gpuNodeNamed(c.Facts, n.Name)
	if g == nil || !repartitions(g.Node) || partitionAs(c.Facts, n.DeepCopy(), g.Labels[labelMIG]) {
		return
	}
	c.grant(n)
}

// migAsk are the profiles that the pod asks for.
func migAsk(p *corev1.Pod) []migProfile { return migOf(askOf(p)) }
