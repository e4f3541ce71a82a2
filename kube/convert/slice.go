package convert

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/engine"
)

// migProfile is the name of a kind of MIG instance: 1g.10gb, 1g.10gb.me. The first number is its compute slices, the second its memory.
var migProfile = regexp.MustCompile(`^([1-9])g\.([0-9]{1,4})gb(\.me)?(\.all|\.gfx)?$`)

// cardGB is the memory of a card where its name says it: NVIDIA-A100-SXM4-80GB.
var cardGB = regexp.MustCompile(`-([0-9]{1,4})GB(-|$)`)

// cards with MIG whose names do not say how much memory they have, in GB as their profiles count it.
var migMemory = map[string]int64{"A30": 24, "H100": 80, "H200": 141, "GH200": 96, "B200": 180, "GB200": 186, "B300": 279, "GB300": 279}

// slicesOf lists the resources of the node of which one is a part of a GPU, in the words of the device plugin and of GPU Feature
// Discovery: instances of MIG, under names of their own or, under the strategy single, as GPUs, and the replicas of what is shared. What
// its labels do not tell counts as it did without them.
func slicesOf(n *corev1.Node, have engine.Resources) (out []engine.Slice) {
	for _, a := range have {
		if s, ok := sliceOf(n.Labels, a.Resource); ok && len(out) < MaxNodeResources {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b engine.Slice) int { return strings.Compare(a.Resource, b.Resource) })
	return out
}

// slicedModel is the model of the GPUs that the slices are of, "" where the labels do not say. Where instances of MIG are offered as GPUs
// it is that of the instance, A100-MIG-1g.5gb: whoever names an A100 asks for a GPU, and queues count the instance as a part of one.
func slicedModel(labels map[string]string, all []engine.Slice) string {
	product := strings.TrimSuffix(labels[labelProduct], "-SHARED")
	if strings.Contains(product, "-MIG-") {
		short, _ := shortModel(product)
		return short
	}
	for _, s := range all {
		of, _, _ := strings.Cut(labels[strings.TrimSuffix(s.Resource, ".shared")+".product"], "-MIG-")
		of = strings.TrimSuffix(of, "-SHARED")
		if product == "" {
			product = of
		}
		if of != "" && of != product {
			return ""
		}
	}
	if product == "" {
		return ""
	}
	short, _ := shortModel(product)
	return short
}

func sliceOf(labels map[string]string, resource string) (engine.Slice, bool) {
	vendor, name, _ := strings.Cut(strings.TrimSuffix(resource, ".shared"), "/")
	base := vendor + "/" + name
	product := labels[base+".product"]
	profile, isMIG := strings.CutPrefix(name, "mig-")
	if !isMIG {
		_, profile, isMIG = strings.Cut(strings.TrimSuffix(product, "-SHARED"), "-MIG-")
	}
	out := engine.Slice{Resource: resource, Memory: engine.Whole, Compute: engine.Whole}
	if isMIG {
		p := migProfile.FindStringSubmatch(profile)
		if p == nil {
			return engine.Slice{}, false
		}
		out.Memory, out.Compute = cardOf(labels, vendor, name, product).instance(count(p[1]), count(p[2]))
	}
	if replicas := count(labels[base+".replicas"]); replicas > 1 {
		out.Memory, out.Compute = max(1, out.Memory/replicas), max(1, out.Compute/replicas)
	}
	return out, isMIG || out.Memory < engine.Whole
}

// card is a GPU that MIG cuts: its compute slices, its slots of memory, and its memory in GB, 0 where nobody says.
type card struct{ slices, slots, gb int64 }

// instance is what an instance of so many compute slices and GB is of the card, in thousandths.
func (c card) instance(slices, gb int64) (memory, compute int64) {
	compute = min(engine.Whole, slices*engine.Whole/c.slices)
	if c.gb == 0 {
		return compute, compute
	}
	slots := (gb*c.slots*2 + c.gb) / (c.gb * 2) // rounded, as the names of profiles are
	return min(engine.Whole, max(1, slots)*engine.Whole/c.slots), compute
}

// cardOf is what the node's labels tell of the card that the resource is cut from.
func cardOf(labels map[string]string, vendor, resource, product string) card {
	whole, _, _ := strings.Cut(product, "-MIG-")
	if whole == "" {
		whole = labels[vendor+"/gpu.product"]
	}
	mib := int64(0)
	if strings.HasPrefix(resource, "mig-") { // where instances are resources of their own the label is about the card
		mib = count(labels[vendor+"/gpu.memory"])
	}
	return cardNamed(strings.TrimSuffix(whole, "-SHARED"), mib)
}

// cardNamed is the card of the product, with so many MiB, 0 where nobody says.
func cardNamed(product string, mib int64) card {
	short, _ := shortModel(product)
	out := card{slices: 7, slots: 8}
	if short == "A30" || strings.HasPrefix(short, "RTX") {
		out = card{slices: 4, slots: 4}
	}
	switch named := cardGB.FindStringSubmatch(product); {
	case named != nil:
		out.gb = count(named[1])
	case mib > 0:
		out.gb = (mib + 512) / 1024
	case strings.HasSuffix(product, "-NVL"):
		out.gb = 94
	default:
		out.gb = migMemory[short]
	}
	return out
}

// count is the number in the text, 0 where it is none, or none that makes sense.
func count(text string) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > 1<<30 {
		return 0
	}
	return n
}
